//! Event streams: the form that an API gives to generated answers.

use super::{
    chat::ChatEvents,
    choice::{Choice, Piece},
    completion::CompletionEvents,
    delta::Usage,
    messages::MessageEvents,
    responses::ResponseEvents,
};
use std::fmt::Debug;

/// APIs with event streams of generated answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    /// `POST /v1/chat/completions`.
    Chat,
    /// `POST /v1/completions`.
    Completions,
    /// `POST /v1/responses`.
    Responses,
    /// `POST /v1/messages` of Anthropic's API.
    Messages,
}

/// Form of a stream.
#[derive(Clone, Debug)]
pub struct EventFormat {
    /// The API.
    pub api: Api,
    /// JSON object of members that events repeat: those of a chunk, a response or a message; or those of the document.
    pub head: String,
    /// Id without prefixes, unique for a request.
    pub id: String,
    /// The last event has the numbers of tokens (chats and completions).
    pub include_usage: bool,
    /// Every event has them, as far as the model gives them (chats and completions).
    pub continuous_usage: bool,
    /// Texts before the answers (completions).
    pub echo: Vec<String>,
    /// Tokens of the prompt, known before the answer (messages).
    pub prompt_tokens: u64,
}

/// An error after the first event.
#[derive(Clone, Debug)]
pub struct StreamError {
    /// The error of the API as a JSON object.
    pub body: String,
    /// The message for people.
    pub message: String,
    /// A code for programs.
    pub code: Option<String>,
}

/// Writer of the events of one stream.
pub trait Events: Debug + Send {
    /// Appends the events of what a chunk adds to the answer `index`, which is not nothing.
    fn piece(&mut self, out: &mut Vec<u8>, index: usize, piece: &Piece, choice: &Choice);

    /// Appends the events of the end of the answer `index`.
    fn end_choice(&mut self, out: &mut Vec<u8>, index: usize, choice: &Choice);

    /// Appends the events of the end.
    fn end(&mut self, out: &mut Vec<u8>, choices: &[&Choice], usage: &Usage);

    /// Appends the events of an error, which ends the stream.
    fn fail(&mut self, out: &mut Vec<u8>, error: &StreamError);

    /// Appends the response of a request without a stream, a JSON document. All answers have ended, were retained and
    /// passed through [`Events::piece`].
    fn document(&mut self, out: &mut Vec<u8>, choices: &[&Choice], usage: &Usage);
}

impl EventFormat {
    /// Creates the writer of a stream with a number of answers.
    #[must_use]
    pub fn events(self, answers: usize) -> Box<dyn Events> {
        match self.api {
            Api::Chat => Box::new(ChatEvents::new(&self, answers)),
            Api::Completions => Box::new(CompletionEvents::new(self, answers)),
            Api::Responses => Box::new(ResponseEvents::new(self)),
            Api::Messages => Box::new(MessageEvents::new(self)),
        }
    }
}

/// Members of a JSON object, without its braces.
pub(super) fn members(object: &str) -> &str {
    object.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or(object)
}
