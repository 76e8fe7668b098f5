"""Who transmits now: one short file per family, a registry, and a checker for anybody's scheduler."""
