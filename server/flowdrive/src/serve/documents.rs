//! Documents that the client is asked to show.
//!
//! Must not: wait for the client.

use std::path::Path;

use tower_lsp::Client;
use tower_lsp::lsp_types::request::ShowDocument;
use tower_lsp::lsp_types::{ShowDocumentParams, Url};

/// Has the client show a file. False when the path is not absolute.
pub(crate) fn show(client: &Client, path: &Path) -> bool {
    let Ok(uri) = Url::from_file_path(path) else { return false };
    let client = client.clone();
    tokio::spawn(async move {
        let params = ShowDocumentParams { uri, external: None, take_focus: Some(true), selection: None };
        if let Err(error) = client.send_request::<ShowDocument>(params).await {
            tracing::warn!(%error, "the client cannot show a document");
        }
    });
    true
}
