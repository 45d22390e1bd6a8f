//! The HTTP clients. Connections are pooled per origin. The system's proxy is used for other machines and never for this one:
//! a proxy set for the web must not get what is meant for a server beside us.
//!
//! Must not: ask anything.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use reqwest::{Client, Url};

use super::http::{Fault, cause};

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The HTTP clients, made when first needed: loading certificates takes longer than a server may take to start.
#[derive(Debug, Default)]
pub(in crate::delegate) struct Clients {
    direct: OnceLock<Client>,
    proxied: OnceLock<Client>,
    /// Those that trust more than the system does: whether direct, and what.
    trusting: Mutex<HashMap<(bool, String), Client>>,
}

impl Clients {
    /// The one for this URL. `ca`: certificates (PEM) to be trusted besides those the system trusts.
    pub(super) fn of(&self, url: &Url, ca: Option<&str>) -> Result<Client, Fault> {
        let local = is_local(url);
        if let Some(ca) = ca {
            // No await under this lock; making a client takes some milliseconds, once.
            let mut trusting = self.trusting.lock().unwrap_or_else(PoisonError::into_inner);
            let key = (local, ca.to_owned());
            if let Some(client) = trusting.get(&key) {
                return Ok(client.clone());
            }
            let client = make(local, Some(ca))?;
            trusting.insert(key, client.clone());
            return Ok(client);
        }
        let slot = if local { &self.direct } else { &self.proxied };
        if let Some(client) = slot.get() {
            return Ok(client.clone());
        }
        let client = make(local, None)?;
        // Another task may have made one meanwhile; then that is the one whose pool is shared.
        Ok(slot.get_or_init(|| client).clone())
    }
}

fn make(local: bool, ca: Option<&str>) -> Result<Client, Fault> {
    let no_client = |error: reqwest::Error| Fault::error(format!("no HTTP client: {}", cause(&error)));
    let mut builder = Client::builder()
        .user_agent(concat!("flowdrive/", env!("CARGO_PKG_VERSION")))
        .redirect(reqwest::redirect::Policy::none())
        .connect_timeout(CONNECT_TIMEOUT)
        .pool_idle_timeout(Duration::from_secs(60));
    if local {
        builder = builder.no_proxy();
    }
    if let Some(ca) = ca {
        builder = builder.tls_certs_merge(reqwest::Certificate::from_pem_bundle(ca.as_bytes()).map_err(no_client)?);
    }
    builder.build().map_err(no_client)
}

fn is_local(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost")
        || host.to_ascii_lowercase().ends_with(".localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_known() {
        for url in
            ["http://127.0.0.1:9/", "http://localhost/", "http://[::1]:1/", "http://127.9.9.9/", "http://x.localhost/"]
        {
            assert!(is_local(&Url::parse(url).unwrap()), "{url}");
        }
        for url in ["http://10.0.0.1/", "http://localhost.example/", "http://example/"] {
            assert!(!is_local(&Url::parse(url).unwrap()), "{url}");
        }
    }
}
