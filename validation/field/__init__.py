"""Parts of field.py: modules with one experiment each, common functions, and programs for the namespaces."""
