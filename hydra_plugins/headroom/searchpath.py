"""The yaml of installed packages, found by Hydra after that in conf/."""

# Hydra executes this file before it is in sys.modules: no postponed annotations here.
from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin


class InstalledConfigs(SearchPathPlugin):
    """Adds the folders that packages register in the group `headroom.conf`."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        from sweeper.store.registry import folders_of_conf

        for package, folder in folders_of_conf().items():
            search_path.append(package, f"file://{folder}")
