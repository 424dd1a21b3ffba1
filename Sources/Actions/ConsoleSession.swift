import AppStore
import Crypto
import Foundation
import Postgres
import Text
import Work

/// The secret of a session of the console, which the browser's cookie has: 32 random bytes.
package struct SessionSecret: Sendable {
  private static let length = 32

  /// The value of the cookie, in base64url.
  package let text: String

  /// A new secret.
  init() {
    let key = SymmetricKey(size: SymmetricKeySize(bitCount: Self.length * 8))
    text = Base64.string(key.withUnsafeBytes { Array($0) }, .url)
  }

  /// - Returns: `nil` for a text that no secret has.
  package init?(_ text: String) {
    guard Base64.decode(text, .url)?.count == Self.length else { return nil }
    self.text = text
  }

  /// The value of the column `secret_hash`.
  fileprivate var hash: [UInt8] { Array(SHA256.hash(data: Array(text.utf8))) }
}

extension People {
  /// For how long a session lasts, in seconds.
  package static let sessionLength: TimeInterval = 12 * 3_600

  /// Begins a session of the person with a token, and deletes the sessions that have ended.
  /// - Returns: `nil` for a token of no person, or of a removed one.
  /// - Throws: errors of the database.
  package func beginSession(_ token: PersonToken) async throws -> (person: Person, secret: SessionSecret)? {
    let secret = SessionSecret()
    let found: Query = """
      SELECT p.* FROM people_tokens t JOIN people p ON p.id = t.person_id
      WHERE t.token_hash = \(token.hash) AND p.removed_at IS NULL
      """
    let rows = try await pool.query(SessionRows.begin(secret, of: found, at: clock.now()))
    return try rows.first.map { (try Person($0), secret) }
  }

  /// Begins a session of the person with exactly this name, whom a trusted proxy has signed in.
  /// - Returns: `nil` for a name of no person, or of a removed one.
  /// - Throws: errors of the database.
  package func beginSession(named name: String) async throws -> SessionSecret? {
    let secret = SessionSecret()
    let instant = clock.now()
    let found: Query = "SELECT p.* FROM people p WHERE p.name = \(name.storable) AND p.removed_at IS NULL"
    guard
      let person = try await pool.query(SessionRows.begin(secret, of: found, at: instant)).first.map(
        Person.init)
    else { return nil }
    _ = try await pool.query(PersonRows.wasSeen(person, at: instant))
    return secret
  }

  /// The person of a session.
  /// - Returns: `nil` for an unknown session, one that has ended, or one of a removed person.
  /// - Throws: errors of the database.
  package func person(of secret: SessionSecret) async throws -> Person? {
    try await pool.query(SessionRows.person(secret, at: clock.now())).first.map(Person.init)
  }

  /// Ends a session; an unknown one changes nothing.
  /// - Throws: errors of the database.
  package func endSession(_ secret: SessionSecret) async throws {
    _ = try await pool.query(SessionRows.end(secret))
  }
}

/// Statements on the table `console_sessions`.
enum SessionRows {
  /// The lock on the person makes a concurrent removal wait, or find no person here: no session outlives the removal.
  /// - Parameter found: selects the person's row as `p`.
  fileprivate static func begin(_ secret: SessionSecret, of found: Query, at instant: Date) -> Query {
    """
    WITH ended AS (
      DELETE FROM console_sessions WHERE expires_at <= \(instant)
    ), found AS (
      \(found) FOR SHARE OF p
    ), begun AS (
      INSERT INTO console_sessions (secret_hash, person_id, created_at, expires_at)
      SELECT \(secret.hash), id, \(instant), \(instant.addingTimeInterval(People.sessionLength)) FROM found
    )
    SELECT \(unescaped: PersonRows.columns) FROM found
    """
  }

  fileprivate static func person(_ secret: SessionSecret, at instant: Date) -> Query {
    """
    SELECT p.* FROM console_sessions s JOIN people p ON p.id = s.person_id
    WHERE s.secret_hash = \(secret.hash) AND s.expires_at > \(instant) AND p.removed_at IS NULL
    """
  }

  fileprivate static func end(_ secret: SessionSecret) -> Query {
    "DELETE FROM console_sessions WHERE secret_hash = \(secret.hash)"
  }

  /// Ends all sessions of a person.
  static func end(of person: Person) -> Query {
    "DELETE FROM console_sessions WHERE person_id = \(person.id)"
  }
}
