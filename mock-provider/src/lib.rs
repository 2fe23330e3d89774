//! A scripted Responses provider.
