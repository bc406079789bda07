"""The pages of a report, a module each: from what was chosen to the body of a page."""
