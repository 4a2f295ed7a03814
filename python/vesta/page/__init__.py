"""The page that ``vesta.explain(html=...)`` writes."""
