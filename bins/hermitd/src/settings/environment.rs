//! Settings in the environment: `HERMITD_` and the name in capitals.
//!
//! A variable that begins like that and is none refuses the start: it is a setting that somebody believes to be in force. The exception are those that Kubernetes and
//! Docker make for a service called `hermitd`, such as `HERMITD_SERVICE_HOST`, which nobody has written.

use std::ffi::OsString;

use super::finding::{Origin, excerpt};
use super::first_administrator;
use super::gather::Gathered;
use super::names::{self, PREFIX};
use super::value::Raw;

/// Takes what these variables say.
pub(super) fn take(variables: impl Iterator<Item = (OsString, OsString)>, gathered: &mut Gathered) {
    let ours = variables.filter_map(|(name, value)| {
        let name = name.to_string_lossy().into_owned();
        name.starts_with(PREFIX).then_some((name, value))
    });
    let mut ours: Vec<_> = ours.collect();
    // Their order is the shell's accident.
    ours.sort();
    for (variable, value) in &ours {
        let Some(rest) = variable.strip_prefix(PREFIX) else { continue };
        take_one(variable, rest, value.to_str(), gathered);
    }
}

fn take_one(variable: &str, rest: &str, value: Option<&str>, gathered: &mut Gathered) {
    if rest == "CONFIG" || first_administrator::NAMES.contains(&rest) {
        return;
    }
    let origin = Origin::Variable(variable.to_owned());
    let known = names::known();
    let name = rest.to_lowercase();
    let is_upper = rest == rest.to_uppercase();
    if is_upper && known.contains(&name) {
        match value {
            Some(value) => gathered.take(&name, Raw::Text(value), origin, value),
            None => gathered.findings.add(origin, format!("`{name}` is not UTF-8")),
        }
    } else if let Some((setting, unit)) = is_upper.then(|| names::formerly(&name)).flatten() {
        let value = value.unwrap_or_default();
        gathered.take(setting.name, Raw::Text(&with_unit(value, unit)), origin.clone(), value);
        gathered.note_former(&origin, variable, setting, unit);
    } else if !is_of_a_service(rest, value.unwrap_or_default()) {
        let mut known: Vec<_> = known.iter().map(|name| name.to_uppercase()).collect();
        known.push("CONFIG".to_owned());
        known.extend(first_administrator::NAMES.map(str::to_owned));
        let hint = match names::nearest(&rest.to_uppercase(), &known) {
            Some(meant) => format!("did you mean {PREFIX}{meant}?"),
            None => "`hermitd config --reference` lists them; unset it".to_owned(),
        };
        // Without the value, which may be a secret.
        gathered.findings.add(Origin::Variable(excerpt(variable)), format!("there is no such setting; {hint}"));
    }
}

/// A number as it was written before there were units.
pub(super) fn with_unit(value: &str, unit: &str) -> String {
    let is_number = !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { format!("{value}{unit}") } else { value.to_owned() }
}

/// Whether Kubernetes or Docker makes such variables for a service whose name begins with `hermitd`.
fn is_of_a_service(rest: &str, value: &str) -> bool {
    let is_link_port = |rest: &str| {
        let mut parts = rest.rsplit('_').skip_while(|part| ["ADDR", "PORT", "PROTO"].contains(part));
        let protocol = parts.next().is_some_and(|part| ["TCP", "UDP", "SCTP"].contains(&part));
        let number = parts.next().is_some_and(|part| part.parse::<u16>().is_ok());
        protocol && number && parts.next() == Some("PORT")
    };
    let is_service = |what: &str| rest == what || rest.ends_with(&format!("_{what}"));
    is_service("SERVICE_HOST")
        || is_service("SERVICE_PORT")
        || rest.starts_with("SERVICE_PORT_")
        || rest.contains("_SERVICE_PORT_")
        || (is_service("PORT") && value.contains("://"))
        || is_link_port(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(variables: &[(&str, &str)]) -> Gathered {
        let mut gathered = Gathered::default();
        take(variables.iter().map(|(name, value)| (name.into(), value.into())), &mut gathered);
        gathered
    }

    #[test]
    fn what_is_no_variable_of_ours_is_told_with_the_one_that_was_meant() {
        let gathered = taken(&[
            ("PATH", "/bin"),
            ("HERMITD_DATADIR", "x"),
            ("HERMITD_ADMIN_PASWORD", "s3cret"),
            ("HERMITD_FOO", "s3cret"),
            ("HERMITD_listen", "s3cret"),
        ]);
        let found: Vec<_> = gathered.findings.0.iter().map(ToString::to_string).collect();
        assert_eq!(
            found,
            [
                "HERMITD_ADMIN_PASWORD: there is no such setting; did you mean HERMITD_ADMIN_PASSWORD?",
                "HERMITD_DATADIR: there is no such setting; did you mean HERMITD_DATA_DIR?",
                "HERMITD_FOO: there is no such setting; `hermitd config --reference` lists them; unset it",
                "HERMITD_listen: there is no such setting; did you mean HERMITD_LISTEN?",
            ]
        );
    }

    #[test]
    fn what_containers_are_given_for_a_service_is_passed_over() {
        for (name, value) in [
            ("HERMITD_SERVICE_HOST", "10.0.0.1"),
            ("HERMITD_SERVICE_PORT", "9092"),
            ("HERMITD_SERVICE_PORT_AMQP", "5672"),
            ("HERMITD_PORT", "tcp://10.0.0.1:9092"),
            ("HERMITD_PORT_9092_TCP", "tcp://10.0.0.1:9092"),
            ("HERMITD_PORT_9092_TCP_ADDR", "10.0.0.1"),
            ("HERMITD_PORT_9092_TCP_PORT", "9092"),
            ("HERMITD_ADMIN_SERVICE_HOST", "10.0.0.1"),
            ("HERMITD_ADMIN_PORT_80_TCP_PROTO", "tcp"),
            ("HERMITD_CONFIG", "x"),
            ("HERMITD_ADMIN_PASSWORD", "x"),
        ] {
            assert_eq!(taken(&[(name, value)]).findings.0, [], "{name}");
        }
        for (name, value) in [("HERMITD_PORT", "9092"), ("HERMITD_PORT_X_TCP", "1"), ("HERMITD_SERVICE", "x")] {
            assert_eq!(taken(&[(name, value)]).findings.0.len(), 1, "{name}");
        }
    }
}
