-- Names that hold a text, whatever their case, and how many operations have them.
SELECT name, category, ops
FROM memory.explorer.names
WHERE contains(lower(name), lower($text))
ORDER BY ops DESC, name
