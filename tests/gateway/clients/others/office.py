"""What LibreOffice Base asks: `python3 office.py`, with libpq's environment, LibreOffice and Debian's python3-uno."""

import os
import subprocess
import time
from tempfile import TemporaryDirectory

import uno
from com.sun.star.beans import PropertyValue


def connected(home):
    """An office, and its context."""
    words = [
        "soffice",
        "--headless",
        "--norestore",
        f"-env:UserInstallation=file://{home}",
        "--accept=pipe,name=cleave;urp;",
    ]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    local = uno.getComponentContext()
    resolver = local.ServiceManager.createInstanceWithContext("com.sun.star.bridge.UnoUrlResolver", local)
    while True:
        try:
            return process, resolver.resolve("uno:pipe,name=cleave;urp;StarOffice.ComponentContext")
        except Exception:  # noqa: BLE001 - it has not yet started
            time.sleep(0.5)


def rows(result, count):
    found = []
    while result.next():
        found.append([result.getString(place + 1) for place in range(count)])
    return found


def ask(context):
    env = os.environ
    manager = context.ServiceManager.createInstanceWithContext("com.sun.star.sdbc.DriverManager", context)
    given = {"user": env["PGUSER"], "password": env.get("PGPASSWORD", "")}
    address = f"sdbc:postgresql:host={env['PGHOST']} port={env['PGPORT']} dbname={env['PGDATABASE']}"
    words = tuple(PropertyValue(name, 0, value, 0) for name, value in given.items())
    connection = manager.getConnectionWithInfo(address, words)
    data = connection.getMetaData()
    print(rows(data.getSchemas(), 1), rows(data.getTables(None, "public", "%", ("TABLE", "VIEW")), 4))
    print(rows(data.getColumns(None, "public", "stays", "%"), 9), rows(data.getPrimaryKeys(None, "public", "stays"), 5))
    print(rows(data.getIndexInfo(None, "public", "stays", False, False), 9))
    statement = connection.createStatement()
    print(rows(statement.executeQuery('SELECT * FROM "public"."stays" ORDER BY id'), 17))
    prepared = connection.prepareStatement("SELECT id, bill FROM stays WHERE id > ? AND ward <> ? ORDER BY id")
    prepared.setLong(1, 5)
    prepared.setString(2, "A'")
    print(rows(prepared.executeQuery(), 2))
    tables = manager.getDriverByURL("sdbc:postgresql:").getDataDefinitionByConnection(connection).getTables()
    stays = tables.getByName("public.stays")
    print(tables.getElementNames(), stays.getColumns().getElementNames(), stays.getKeys().getCount())
    connection.close()


with TemporaryDirectory() as home:
    process, context = connected(home)
    try:
        ask(context)
    finally:
        process.terminate()
        process.wait()
