"""The foundation of the project: errors, files, tables, settings and published data.

All other packages import these modules, which import nothing else of the project.
"""

__all__: list[str] = []
