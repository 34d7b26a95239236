//! `hermit-cli profile …`

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub(crate) enum ProfileCommand {
    /// Lists the profiles; the one in force is marked.
    #[command(after_help = "Example:\n  hermit-cli profile list")]
    List,
    /// Tells what a profile says, without its secrets.
    #[command(after_help = "Example:\n  hermit-cli profile show prod")]
    Show {
        /// The profile. Default: the one in force.
        name: Option<String>,
    },
    /// Makes a profile the default.
    #[command(after_help = "Example:\n  hermit-cli profile use prod")]
    Use {
        /// The profile.
        name: String,
    },
}

/// Behind `hermit-cli profile --help`.
pub(crate) const ABOUT_FILE: &str = "\
The file is ~/.config/hermit/config.toml ($XDG_CONFIG_HOME counts), or what HERMIT_CONFIG names:

  default = \"test\"

  [profiles.test]
  server = \"127.0.0.1:9092\"

  [profiles.prod]
  server = [\"mq-1.example.com:9092\", \"mq-2.example.com:9092\"]    # the first that answers
  user = \"alice\"
  password_file = \"prod.password\"         # or password, token, token_file; paths count from here
  tls_ca = \"prod-ca.pem\"                  # or tls = true; also tls_cert, tls_key, tls_server_name

An option counts before the environment, that before the profile. The login of the default profile goes to its own servers alone.";
