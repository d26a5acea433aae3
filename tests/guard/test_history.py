"""The lines of the history in which secrets are looked for."""

from tests.guard.history import added_lines

LOG = b"""diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -1 +1,2 @@
-old
+new
++++ b/no-name.py
diff --git a/gone.py b/gone.py
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-gone
diff --git a/a.py b/a.py
--- /dev/null
+++ b/a.py
@@ -0,0 +1 @@
+old
"""


def test_lines_that_any_commit_added_are_found_by_their_file() -> None:
    """Also those that a later commit took out again; a removed line is no added one."""
    assert added_lines(LOG.splitlines(keepends=True)) == {"a.py": [b"new\n", b"+++ b/no-name.py\n", b"old\n"]}
