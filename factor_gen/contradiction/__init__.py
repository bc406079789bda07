"""The stage that rejects candidates which may be true together with the completion."""
