"""Evidence from a web search service, which a YAML file describes.

``config`` reads the YAML, whose ``request`` and ``response`` describe the HTTP of the service.
``service`` asks it and reads ``pages``, and ``store`` keeps what was found with its date.
"""
