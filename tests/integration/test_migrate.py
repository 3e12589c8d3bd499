"""llm-routerctl migrate: what it says and refuses. What it does to a database is in the unit
tests of the store on Postgres."""

import subprocess

import pytest

from processes import ROOT, program

MIGRATIONS = sorted(path.stem for path in (ROOT / "sql").glob("[0-9]*.sql"))
CANARY = "canary-7d1f"


@pytest.fixture
def database(postgres):
    return postgres.new_database(is_migrated=False)


def migrate(*arguments, **environment):
    return subprocess.run(
        [program("llm-routerctl"), "migrate", *map(str, arguments)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_it_says_what_it_did_and_that_there_is_nothing_left_to_do(postgres, database):
    first = migrate(DATABASE_URL=postgres.address(database))
    assert first.returncode == 0 and first.stderr == ""
    assert first.stdout.splitlines() == [
        *(f"applied {name}" for name in MIGRATIONS),
        f"the database has schema {len(MIGRATIONS)}",
    ]
    again = migrate(DATABASE_URL=postgres.address(database))
    assert again.returncode == 0
    assert again.stdout == f"the database has schema {len(MIGRATIONS)}, as before\n"
    assert postgres.sql("SELECT name FROM schema_migrations ORDER BY version", database) == MIGRATIONS


@pytest.mark.parametrize("form", ["variable", "variable of a file", "flag"])
def test_the_address_comes_from_a_variable_or_a_file(postgres, database, tmp_path, form):
    file = tmp_path / "database.url"
    file.write_text(f" {postgres.address(database)}\n")
    done = {
        "variable": lambda: migrate(DATABASE_URL=postgres.address(database)),
        "variable of a file": lambda: migrate(DATABASE_URL_FILE=str(file)),
        "flag": lambda: migrate("--database-url-file", file, DATABASE_URL="host=/nonexistent"),
    }[form]()
    assert done.returncode == 0, done.stderr


REFUSED = {
    "no address": ((), {}, "none of --database-url-file, DATABASE_URL and DATABASE_URL_FILE is set"),
    "both forms": ((), {"DATABASE_URL": "host=x", "DATABASE_URL_FILE": "/x"}, "both set"),
    "no file": (("--database-url-file", "/nonexistent/url"), {}, "/nonexistent/url"),
    "no address of Postgres": ((), {"DATABASE_URL": CANARY}, "not one of libpq's"),
    "a password that is not escaped": (
        (),
        {"DATABASE_URL": f"postgresql://u:{CANARY}@{CANARY}@127.0.0.1:1/x"},
        "written %40",
    ),
    "nobody there": (
        (),
        {"DATABASE_URL": f"postgresql://u:{CANARY}@127.0.0.1:1/x"},
        "cannot connect to Postgres",
    ),
}


@pytest.mark.parametrize("arguments, environment, words", REFUSED.values(), ids=REFUSED.keys())
def test_what_it_refuses_is_one_sentence_without_a_password(arguments, environment, words):
    done = migrate(*arguments, **environment)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("llm-routerctl migrate: ") and words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert CANARY not in done.stderr


def dump(postgres, database):
    """What is in the database, without the tokens that pg_dump makes anew each time."""
    return [line for line in postgres.dump(database).splitlines() if b"restrict " not in line]


def test_a_database_of_a_newer_program_is_left_alone(postgres, database):
    assert migrate(DATABASE_URL=postgres.address(database)).returncode == 0
    postgres.sql("INSERT INTO schema_migrations (version, name) VALUES (900, 'later')", database)
    before = dump(postgres, database)
    done = migrate(DATABASE_URL=postgres.address(database))
    assert done.returncode == 1
    assert f"has schema 900, this program knows schemas up to {len(MIGRATIONS)}" in done.stderr
    assert dump(postgres, database) == before


def test_the_role_of_the_programs_is_granted_what_the_readme_lists(postgres, database):
    role = f"programs_of_{database}"
    postgres.sql(f"CREATE ROLE {role} LOGIN", database)
    done = migrate("--grant-to", role, DATABASE_URL=postgres.address(database))
    assert done.returncode == 0 and done.stdout.endswith(f"granted to {role} what the programs need\n")
    rows = postgres.sql(
        "SELECT table_name, string_agg(privilege_type, ', ' ORDER BY privilege_type)"
        f" FROM information_schema.role_table_grants WHERE grantee = '{role}' GROUP BY 1 ORDER BY 1",
        database,
    )
    assert rows == [
        "admin_audit_log|INSERT, SELECT",
        "config_kv|INSERT, SELECT, UPDATE",
        "config_kv_history|INSERT, SELECT",
        "router_instance|DELETE, INSERT, SELECT, UPDATE",
        "routing_decisions|INSERT",
        "schema_migrations|SELECT",
    ]
    operator = {
        "DATABASE_URL": postgres.address(database, user=role),
        "REDIS_URL": "unix:/nonexistent/redis.sock",
    }
    added = subprocess.run(
        [program("llm-routerctl"), "caller-key", "add", "--id", "ci"], env=operator, capture_output=True, check=False
    )
    assert added.returncode == 0, added.stderr
