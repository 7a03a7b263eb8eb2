//! Reads addresses, one a line, and prints what check-if-email-exists finds about each as one line
//! of JSON. Settings are environment variables: PEER_PORT, PEER_HELO, PEER_SENDER,
//! PEER_TIMEOUT_SECONDS, PEER_CONNECTIONS (each connection to a server), PEER_CONCURRENCY.

use check_if_email_exists::smtp::verif_method::{
    HotmailB2CVerifMethod, VerifMethod, VerifMethodSmtpConfig, YahooVerifMethod,
};
use check_if_email_exists::{check_email, CheckEmailInput};
use std::{env, io, sync::Arc, time::Duration};
use tokio::{sync::Semaphore, task::JoinSet};

#[tokio::main]
async fn main() {
    let method = verification_method();
    let permits = Arc::new(Semaphore::new(number("PEER_CONCURRENCY")));
    let mut checks = JoinSet::new();
    for line in io::stdin().lines() {
        let input = CheckEmailInput {
            to_email: line.expect("addresses are lines of UTF-8"),
            verif_method: method.clone(),
            ..Default::default()
        };
        let permits = permits.clone();
        checks.spawn(async move {
            let _permit = permits.acquire_owned().await.expect("it is never closed");
            check_email(&input).await
        });
    }
    while let Some(output) = checks.join_next().await {
        let output = output.expect("a check does not panic");
        println!("{}", serde_json::to_string(&output).expect("it is serializable"));
    }
}

/// By SMTP everywhere: the headless browser for Yahoo and Outlook.com needs their web sites.
fn verification_method() -> VerifMethod {
    let smtp = VerifMethodSmtpConfig {
        from_email: setting("PEER_SENDER"),
        hello_name: setting("PEER_HELO"),
        smtp_port: setting("PEER_PORT").parse().expect("PEER_PORT is a port"),
        smtp_timeout: Some(Duration::from_secs(number("PEER_TIMEOUT_SECONDS") as u64)),
        retries: number("PEER_CONNECTIONS"),
        proxy: None,
    };
    let method = VerifMethod::new_with_same_config_for_all(
        None,
        smtp.hello_name.clone(),
        smtp.from_email.clone(),
        smtp.smtp_port,
        smtp.smtp_timeout,
        smtp.retries,
    );
    VerifMethod {
        hotmailb2c: HotmailB2CVerifMethod::Smtp(smtp.clone()),
        yahoo: YahooVerifMethod::Smtp(smtp),
        ..method
    }
}

fn number(name: &str) -> usize {
    setting(name).parse().unwrap_or_else(|_| panic!("{name} is no number"))
}

fn setting(name: &str) -> String {
    env::var(name).unwrap_or_else(|_| panic!("{name} is missing"))
}
