//! `hermit-cli acl …`

use std::io::{self, Write};

use anyhow::{Context, Result, bail};
use hermit_client::{AccessOperations, AccessResource, AccessRule, Admin, Client, EVERY_USER, NamePattern};
use serde_json::{Value, json};

use crate::args::{AclCommand, Output};
use crate::text::{counted, headings, table};

/// Runs one of the acl commands.
pub(crate) async fn run(client: &Client, command: AclCommand, output: Output) -> Result<()> {
    let admin = client.admin();
    let mut out = Vec::new();
    match command {
        AclCommand::Add(args) => {
            let changed = admin.add_rules(rules(&args.user, args.resources.list(), &args.allow)?).await?;
            tell(output, &mut out, "added", changed)?;
            warn_of_nobody(&admin, &args.user).await?;
        }
        AclCommand::List { user } => list(&admin.list_rules(user.as_deref()).await?, output, &mut out)?,
        AclCommand::Remove(args) => {
            let allow = if args.allow.is_empty() { vec![AccessOperations::ALL] } else { args.allow };
            let changed = admin.delete_rules(rules(&args.user, args.resources.list(), &allow)?).await?;
            if changed == 0 {
                bail!("no rule allows {} any of this; see `hermit-cli acl list`", args.user);
            }
            tell(output, &mut out, "removed", changed)?;
        }
    }
    io::stdout().write_all(&out).context("standard output")
}

/// A name that is misspelt would get the rule, and whoever is called so one day.
async fn warn_of_nobody(admin: &Admin, user: &str) -> Result<()> {
    // Who may change rules may ask for users; where that fails, the rule is there all the same.
    let is_known =
        user == EVERY_USER || admin.list_users().await.map_or(true, |users| users.iter().any(|known| known.name == user));
    if !is_known {
        writeln!(io::stderr(), "warning: there is no user {user}; the rule is for whoever will be").context("standard error")?;
    }
    Ok(())
}

fn tell(output: Output, out: &mut impl Write, done: &str, changed: u32) -> io::Result<()> {
    match output {
        // An addition that was there already is none.
        Output::Text if changed == 0 => writeln!(out, "nothing to do: that is allowed already"),
        Output::Text => writeln!(out, "{done} {}", counted(changed.into(), "rule")),
        Output::Json => writeln!(out, "{}", json!({ done: changed })),
    }
}

/// A rule for each resource.
fn rules(user: &str, resources: Vec<AccessResource>, allow: &[AccessOperations]) -> Result<Vec<AccessRule>> {
    let asked = allow.iter().copied().fold(AccessOperations::NONE, AccessOperations::union);
    let rule = |resource: AccessResource| {
        let known = resource.operations();
        // `all` is what there is.
        let operations = if asked == AccessOperations::ALL { known } else { asked };
        if !known.contains(operations) {
            let of = option(&resource);
            bail!("--allow {}: of {of} there are only {known}", operations.without(known));
        }
        Ok(AccessRule { principal: user.to_owned(), resource, operations })
    };
    resources.into_iter().map(rule).collect()
}

/// The option that names the resource, and the name.
fn parts(resource: &AccessResource) -> (&'static str, &'static str, &str) {
    let (kind, pattern) = match resource {
        AccessResource::Topic(pattern) => ("topic", pattern),
        AccessResource::Group(pattern) => ("group", pattern),
        AccessResource::Broker => return ("broker", "exact", ""),
    };
    let matching = match pattern {
        NamePattern::Exact(_) => "exact",
        NamePattern::Prefix(_) => "prefix",
        NamePattern::Regex(_) => "pattern",
    };
    (kind, matching, pattern.text())
}

fn option(resource: &AccessResource) -> String {
    match parts(resource) {
        (kind, "exact", _) => format!("--{kind}"),
        (kind, matching, _) => format!("--{kind}-{matching}"),
    }
}

fn list(rules: &[AccessRule], output: Output, out: &mut impl Write) -> Result<()> {
    if output == Output::Json {
        for rule in rules {
            writeln!(out, "{}", rule_json(rule))?;
        }
        return Ok(());
    }
    let mut rows = headings(["user", "resource", "name", "allows"]);
    rows.extend(rules.iter().map(|rule| {
        let (_, _, name) = parts(&rule.resource);
        // Patterns may hold anything.
        let name: String = name.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect();
        vec![rule.principal.clone(), option(&rule.resource), name, rule.operations.to_string()]
    }));
    Ok(table(out, &rows)?)
}

fn rule_json(rule: &AccessRule) -> Value {
    let (kind, matching, name) = parts(&rule.resource);
    let operations: Vec<_> = rule.operations.names().collect();
    json!({ "user": rule.principal, "resource": kind, "match": matching, "name": name, "operations": operations })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_resource_gets_a_rule_of_what_it_knows() {
        let topic = AccessResource::Topic(NamePattern::Prefix("a.".into()));
        let group = AccessResource::Group(NamePattern::Exact("g".into()));
        let both = || vec![topic.clone(), group.clone()];
        let all = rules("ann", both(), &[AccessOperations::ALL]).unwrap();
        assert_eq!(all[0].operations, AccessOperations::ALL);
        assert_eq!(all[1].operations, AccessOperations::CONSUME | AccessOperations::ADMINISTER);
        let consume = rules("ann", both(), &[AccessOperations::CONSUME]).unwrap();
        assert!(consume.iter().all(|rule| rule.operations == AccessOperations::CONSUME && rule.principal == "ann"));
        let error = rules("ann", both(), &[AccessOperations::CONSUME, AccessOperations::PRODUCE]).unwrap_err().to_string();
        assert_eq!(error, "--allow produce: of --group there are only consume,administer");
    }
}
