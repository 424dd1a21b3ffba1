import Foundation
import Postgres

/// Statements on the tables `people` and `people_tokens`.
enum PersonRows {
  private static let columns: StaticString =
    "id, name, role, created_at, created_by, last_used_at, removed_at, removed_by"

  /// The person with a token. It sets `last_used_at`, at most once an hour, so that most requests write nothing.
  static func signIn(_ token: PersonToken, at instant: Date) -> Query {
    """
    WITH found AS (
      SELECT p.* FROM people_tokens t JOIN people p ON p.id = t.person_id
      WHERE t.token_hash = \(token.hash) AND p.removed_at IS NULL
    ), used AS (
      UPDATE people SET last_used_at = \(instant) FROM found
      WHERE people.id = found.id
        AND (found.last_used_at IS NULL OR found.last_used_at <= \(instant.addingTimeInterval(-3_600)))
    )
    SELECT \(unescaped: columns) FROM found
    """
  }

  /// Whether a command without a token may act: there are no people, or the role owns the table and so could do anything.
  static let mayActWithoutToken: Query = """
    SELECT NOT EXISTS (SELECT FROM people WHERE removed_at IS NULL)
      OR pg_has_role(relowner, 'USAGE') AS may_act
    FROM pg_class WHERE oid = 'public.people'::regclass
    """

  /// Adds a person, or a removed one again. Returns no row if the person is there.
  static func add(_ name: PersonName, _ role: SupportRole, by author: SupportAuthor, at instant: Date)
    -> Query
  {
    """
    INSERT INTO people AS known (name, name_key, role, created_at, created_by)
    VALUES (\(name.text), \(name.key), \(role.rawValue), \(instant), \(author.by))
    ON CONFLICT (name_key) DO UPDATE SET name = excluded.name, role = excluded.role,
      created_at = excluded.created_at, created_by = excluded.created_by, last_used_at = NULL,
      removed_at = NULL, removed_by = NULL
    WHERE known.removed_at IS NOT NULL
    RETURNING \(unescaped: columns)
    """
  }

  static func insertToken(_ token: PersonToken, of person: Person) -> Query {
    "INSERT INTO people_tokens (person_id, token_hash) VALUES (\(person.id), \(token.hash))"
  }

  /// Removes a person. Returns no row if the person is removed already.
  static func remove(_ name: PersonName, by author: SupportAuthor, at instant: Date) -> Query {
    """
    UPDATE people SET removed_at = \(instant), removed_by = \(author.by)
    WHERE name_key = \(name.key) AND removed_at IS NULL RETURNING \(unescaped: columns)
    """
  }

  static func deleteToken(of person: Person) -> Query {
    "DELETE FROM people_tokens WHERE person_id = \(person.id)"
  }

  static func select(_ name: PersonName) -> Query {
    "SELECT \(unescaped: columns) FROM people WHERE name_key = \(name.key)"
  }

  static let all: Query =
    "SELECT \(unescaped: columns) FROM people ORDER BY removed_at IS NOT NULL, name_key"
}
