import AppStore
import Crypto
import Foundation
import Postgres
import Text

/// A person who works with receiptd: a row of the table `people`.
package struct Person: Hashable, Sendable {
  /// The number in `support_actions.person_id`.
  package let id: Int64
  /// The name in every record.
  package let name: String
  package let role: SupportRole
  /// When the person was added.
  package let createdAt: Date
  /// The name of the actor who added the person.
  package let createdBy: String
  /// When the token was last used, to the hour.
  package let lastUsedAt: Date?
  /// When the person was removed; `nil` while the person can sign in.
  package let removedAt: Date?
  /// The name of the actor who removed the person.
  package let removedBy: String?

  init(_ row: Row) throws {
    id = try row.decode("id")
    name = try row.decode("name")
    let role: String = try row.decode("role")
    guard let known = SupportRole(rawValue: role) else { throw UnknownRole(name: role) }
    self.role = known
    createdAt = try row.decode("created_at")
    createdBy = try row.decode("created_by")
    lastUsedAt = try row.decode("last_used_at")
    removedAt = try row.decode("removed_at")
    removedBy = try row.decode("removed_by")
  }

  /// A role of a newer version.
  private struct UnknownRole: Error { let name: String }
}

extension Person: Encodable {
  private enum Key: CodingKey {
    case name, role, createdAt, createdBy, lastUsedAt, removedAt, removedBy
  }

  /// Encodes one object; a missing date is `null`.
  package func encode(to encoder: any Encoder) throws {
    var members = encoder.container(keyedBy: Key.self)
    try members.encode(name, forKey: .name)
    try members.encode(role, forKey: .role)
    try members.encode(createdAt, forKey: .createdAt)
    try members.encode(createdBy, forKey: .createdBy)
    try members.encode(lastUsedAt, forKey: .lastUsedAt)
    try members.encode(removedAt, forKey: .removedAt)
    try members.encode(removedBy, forKey: .removedBy)
  }
}

/// A person who was added, with the token, which is shown once.
package struct AddedPerson: Encodable, Sendable, CustomStringConvertible {
  let person: Person
  let token: String

  /// Two lines; the second one is the token.
  package var description: String {
    "\(person.name) is added with the role \(person.role.rawValue). The token is shown this once:\n\(token)"
  }
}

/// A person who was removed.
package struct RemovedPerson: Encodable, Sendable, CustomStringConvertible {
  let person: Person
  /// Whether this call removed the person.
  let isChanged: Bool

  /// One line.
  package var description: String {
    isChanged
      ? "\(person.name) is removed; the token ends now"
      : "\(person.name) is removed already, since \(person.removedAt?.rfc3339 ?? "") by \(person.removedBy ?? "")"
  }
}

/// The people, those who can sign in first.
package struct PeopleList: Encodable, Sendable, CustomStringConvertible {
  /// The people.
  package let people: [Person]

  /// A paragraph for each person.
  package var description: String {
    var output = TerminalText()
    for person in people {
      output.line("\(person.name), \(person.role.rawValue)", indent: 0)
      var words = "added \(person.createdAt.rfc3339) by \(person.createdBy)"
      words += person.lastUsedAt.map { ", last used \($0.rfc3339)" } ?? ", never used"
      if let removedAt = person.removedAt {
        words += ", removed \(removedAt.rfc3339) by \(person.removedBy ?? "")"
      }
      output.line(words)
    }
    if output.isEmpty {
      output.line("no people; receiptd people add NAME --role lead adds the first", indent: 0)
    }
    return output.text
  }
}

/// Statements on the tables `people` and `people_tokens`.
enum PersonRows {
  static let columns: StaticString =
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

  /// Sets `last_used_at`, at most once an hour.
  static func wasSeen(_ person: Person, at instant: Date) -> Query {
    """
    UPDATE people SET last_used_at = \(instant)
    WHERE id = \(person.id) AND (last_used_at IS NULL OR last_used_at <= \(instant.addingTimeInterval(-3_600)))
    """
  }

  /// Whether a command without a token may act: there are no people, or the role owns the table and so could do
  /// anything.
  static let mayActWithoutToken: Query = """
    SELECT NOT EXISTS (SELECT FROM people WHERE removed_at IS NULL)
      OR pg_has_role(relowner, 'USAGE') AS may_act
    FROM pg_class WHERE oid = 'people'::regclass
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

/// The token of a person: a prefix that secret scanners find, and 32 random bytes.
///
/// People choose no passphrases: a token of 256 random bits cannot be guessed, so SHA-256 protects it as well as a slow
/// hash protects a passphrase, one lookup by an index finds it, and each request costs microseconds.
package struct PersonToken: Sendable {
  static let prefix = "receiptd_"
  private static let length = 32

  /// The text, to be shown once.
  let text: String

  /// A new token.
  init() {
    let key = SymmetricKey(size: SymmetricKeySize(bitCount: Self.length * 8))
    text = Self.prefix + Base64.string(key.withUnsafeBytes { Array($0) }, .url)
  }

  /// - Returns: `nil` for a text that no token has.
  package init?(_ text: String) {
    guard text.hasPrefix(Self.prefix),
      Base64.decode(String(text.dropFirst(Self.prefix.count)), .url)?.count == Self.length
    else { return nil }
    self.text = text
  }

  /// The value of the column `token_hash`.
  var hash: [UInt8] { Array(SHA256.hash(data: Array(text.utf8))) }
}
