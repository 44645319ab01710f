"""Who wrote to the indexes of a database, by the database's own account."""

from __future__ import annotations

import psycopg


def audited(url: str) -> None:
    """Has the database note the fence of every write to an index, in the order of their commits."""
    with psycopg.connect(url, autocommit=True) as connection:
        (schema,) = connection.execute(
            "SELECT schemaname FROM pg_tables WHERE tablename = 'builds' AND schemaname LIKE 'qianxun_index%'"
        ).fetchone() or ("",)
        connection.execute(
            f"""CREATE TABLE audit (at bigserial PRIMARY KEY, base bigint, fence bigint);
                CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN INSERT INTO audit (base, fence) VALUES (NEW.base, NEW.fence); RETURN NEW; END $$;
                CREATE TRIGGER noted AFTER UPDATE ON {schema}.builds FOR EACH ROW
                WHEN (NEW.generation > OLD.generation) EXECUTE FUNCTION note();"""
        )


def lapsed_writes(url: str) -> list[str]:
    """Writes whose fence is lower than that of an earlier one."""
    with psycopg.connect(url) as connection:
        rows = connection.execute("SELECT base, fence FROM audit ORDER BY at").fetchall()
    highest: dict[int, int] = {}
    lapsed = []
    for base, fence in rows:
        if fence < highest.get(base, 0):
            lapsed.append(f"base {base}: fence {fence} after {highest[base]}")
        highest[base] = max(fence, highest.get(base, 0))
    assert rows
    return lapsed
