//! What a profile says counts where neither an option nor the environment does.

use anyhow::Result;

use super::file::Profiles;
use super::table::Profile;
use crate::args::ConnectionArgs;

/// Fills in what the profile says that was asked for, or the default one.
pub(crate) fn apply(connection: &mut ConnectionArgs) -> Result<()> {
    let profiles = Profiles::read()?;
    let Some(name) = connection.profile.clone().or_else(|| profiles.default.clone()) else { return Ok(()) };
    fill_in(connection, profiles.get(&name)?);
    connection.profile = Some(name);
    Ok(())
}

/// Fills in what was not given. Nobody's login goes to a server that the profile does not name, unless options name both, here and now: a variable
/// may have been set for something else long ago.
fn fill_in(connection: &mut ConnectionArgs, profile: &Profile) {
    let (profile_is_option, server_is_option) = (connection.is_option("profile"), connection.is_option("server"));
    // A profile asked for by an option counts before a server of the environment.
    let takes_servers = !server_is_option && (profile_is_option || !connection.is_given("server"));
    if takes_servers && !profile.servers.is_empty() {
        connection.server.clone_from(&profile.servers);
        connection.server_of_profile = true;
    }
    let own_server = connection.server_of_profile || !connection.is_given("server");
    let gets_login = own_server || (profile_is_option && server_is_option);
    fill_in_tls(connection, profile, gets_login);
    if !gets_login {
        return;
    }
    if !connection.is_given("insecure_login") {
        connection.insecure_login = profile.insecure_login;
    }
    if connection.names_token() {
        return;
    }
    match (&connection.user, &profile.user) {
        // Somebody else's password is none of theirs.
        (Some(given), Some(theirs)) if given != theirs => {}
        (Some(_), None) => {}
        (_, user) => {
            connection.user.clone_from(user);
            connection.profile_password.clone_from(&profile.password);
            if user.is_none() {
                connection.profile_token.clone_from(&profile.token);
            }
        }
    }
}

fn fill_in_tls(connection: &mut ConnectionArgs, profile: &Profile, gets_login: bool) {
    // HERMIT_TLS=0 switches it off.
    if connection.is_given("tls") && !connection.tls {
        return;
    }
    connection.tls |= profile.uses_tls();
    if connection.tls_ca.is_none() {
        connection.tls_ca.clone_from(&profile.tls_ca);
    }
    // The two belong together, and are a login as well.
    if gets_login && connection.tls_cert.is_none() && connection.tls_key.is_none() {
        (connection.tls_cert, connection.tls_key) = (profile.tls_cert.clone(), profile.tls_key.clone());
    }
    if connection.tls_server_name.is_none() {
        connection.tls_server_name.clone_from(&profile.tls_server_name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use crate::profile::Kept;
    use hermit_client::Secret;

    fn connection(options: &[&str]) -> ConnectionArgs {
        Cli::read([&["hermit-cli", "topic", "list"], options].concat()).unwrap().connection
    }

    fn profile() -> Profile {
        Profile {
            servers: vec!["a:1".into(), "b:1".into()],
            user: Some("ann".into()),
            password: Some(Kept::Here(Secret::new("x"))),
            tls_ca: Some("/etc/hermit/ca.pem".into()),
            tls_cert: Some("/etc/hermit/ann.pem".into()),
            tls_key: Some("/etc/hermit/ann.key".into()),
            ..Profile::default()
        }
    }

    #[test]
    fn options_count_before_the_profile_and_that_before_what_is_built_in() {
        let mut given = connection(&[]);
        fill_in(&mut given, &profile());
        assert_eq!(given.server, ["a:1", "b:1"]);
        assert_eq!((given.user.as_deref(), given.tls), (Some("ann"), true));
        assert_eq!(given.tls_ca.as_deref(), Some(std::path::Path::new("/etc/hermit/ca.pem")));
        assert!(given.profile_password.is_some());

        let mut given = connection(&["--profile", "p", "--server", "c:1", "--tls-ca", "mine.pem"]);
        fill_in(&mut given, &profile());
        assert_eq!((given.server[0].as_str(), given.server.len()), ("c:1", 1));
        assert_eq!(given.tls_ca.as_deref(), Some(std::path::Path::new("mine.pem")));
        assert!(given.profile_password.is_some(), "the profile was named together with the server");

        let mut given = connection(&[]);
        fill_in(&mut given, &Profile::default());
        assert_eq!(given.server, ["127.0.0.1:9092"]);
    }

    #[test]
    fn no_password_goes_to_a_server_that_the_default_profile_does_not_name() {
        let mut given = connection(&["--server", "c:1"]);
        fill_in(&mut given, &profile());
        assert_eq!((given.user, given.profile_password, given.tls_cert, given.tls_key), (None, None, None, None));
        assert!(given.tls && given.tls_ca.is_some());
    }

    #[test]
    fn a_login_that_was_given_is_whole() {
        let mut given = connection(&["--user", "bob"]);
        fill_in(&mut given, &profile());
        assert_eq!((given.user.as_deref(), given.profile_password), (Some("bob"), None));
        let mut given = connection(&["--user", "ann"]);
        fill_in(&mut given, &profile());
        assert!(given.profile_password.is_some());
        let mut given = connection(&["--token-file", "t"]);
        fill_in(&mut given, &profile());
        assert_eq!((given.user, given.profile_password), (None, None));
        let with_token = Profile { token: Some(Kept::Here(Secret::new("hmt_x"))), ..Profile::default() };
        let mut given = connection(&["--user", "bob"]);
        fill_in(&mut given, &with_token);
        assert_eq!((given.user.as_deref(), given.profile_token), (Some("bob"), None));
        let mut given = connection(&[]);
        fill_in(&mut given, &with_token);
        assert!(given.profile_token.is_some());
    }
}
