import JSON
import Postgres
import Work

/// Adds a person, or adds a removed one again, with a new token.
package struct AddPersonRequest: SupportRequest {
  package static let operation = SupportOperation.people
  package static let subpath = "/add"
  /// The answer is the token, which is made with the person.
  package static let hasPreview = false

  /// The name, as records show it.
  var name: String
  /// The rights.
  var role: SupportRole

  package init(name: String, role: SupportRole) {
    self.name = name
    self.role = role
  }

  package func run(at people: People, by author: SupportAuthor, isDryRun: Bool) async throws -> AddedPerson {
    try await people.add(name, role: role, by: author)
  }
}

/// Removes a person, whose token ends with the commit. A repeated call changes nothing.
package struct RemovePersonRequest: SupportRequest {
  package static let operation = SupportOperation.people
  package static let subpath = "/remove"

  /// The name.
  var name: String

  package init(name: String) {
    self.name = name
  }

  package func run(at people: People, by author: SupportAuthor, isDryRun: Bool) async throws -> RemovedPerson
  {
    try await people.remove(name, by: author, isDryRun: isDryRun)
  }
}

/// The people with a token of their own: signs them in, adds and removes them.
///
/// Nothing is cached: a person who was removed is refused by the next request on every server.
package struct People: Sendable {
  let pool: PostgresPool
  let clock: ServiceClock

  package init(pool: PostgresPool, clock: ServiceClock) {
    self.pool = pool
    self.clock = clock
  }

  /// The person with a token.
  /// - Returns: `nil` for a token of no person, or of a removed one.
  /// - Throws: errors of the database.
  package func signIn(_ token: PersonToken) async throws -> Person? {
    // The index finds the hash, not the token: the time of the lookup tells an attacker nothing that leads to a token.
    try await pool.query(PersonRows.signIn(token, at: clock.now())).first.map(Person.init)
  }

  /// Whether a command without a token may act in the operator's name: no person can sign in, or the database's role
  /// owns the tables.
  /// - Throws: errors of the database.
  package func mayActWithoutToken() async throws -> Bool {
    try await pool.query(PersonRows.mayActWithoutToken)[0].decode("may_act")
  }

  /// All people, also those who were removed.
  /// - Throws: errors of the database.
  package func list() async throws -> PeopleList {
    PeopleList(people: try await pool.query(PersonRows.all).map(Person.init))
  }

  /// - Throws: ``SupportRefusal`` for a bad name, or a name that is in use; errors of the database.
  fileprivate func add(_ name: String, role: SupportRole, by author: SupportAuthor) async throws
    -> AddedPerson
  {
    let name = try PersonName(name)
    let token = PersonToken()
    let instant = clock.now()
    return try await pool.withTransaction { connection in
      guard
        let person = try await connection.query(PersonRows.add(name, role, by: author, at: instant)).first
          .map(Person.init)
      else {
        throw SupportRefusal.alreadyDone(
          "There is a person '\(name.text)' already. For a new token or another role remove the person first."
        )
      }
      _ = try await connection.pipeline([
        PersonRows.insertToken(token, of: person), record("people-add", person, by: author),
      ])
      return AddedPerson(person: person, token: token.text)
    }
  }

  /// - Throws: ``SupportRefusal`` for an unknown name; errors of the database.
  fileprivate func remove(
    _ name: String, by author: SupportAuthor, isDryRun: Bool
  ) async throws -> RemovedPerson {
    let name = PersonName(stored: name)
    let instant = clock.now()
    return try await pool.withTransaction(isDryRun: isDryRun) { connection in
      let removed = try await connection.query(PersonRows.remove(name, by: author, at: instant)).first
      guard let person = try removed.map(Person.init) else {
        guard let known = try await connection.query(PersonRows.select(name)).first else {
          throw SupportRefusal.notFound("There is no person '\(name.text)'.")
        }
        return RemovedPerson(person: try Person(known), isChanged: false)
      }
      _ = try await connection.pipeline([
        PersonRows.deleteToken(of: person), SessionRows.end(of: person),
        record("people-remove", person, by: author),
      ])
      return RemovedPerson(person: person, isChanged: true)
    }
  }

  private func record(_ action: String, _ person: Person, by author: SupportAuthor) -> Query {
    SupportActionRows.insert(
      [
        SupportAction(
          name: action,
          details: ["person": .string(person.name), "role": .string(person.role.rawValue)])
      ], by: author, at: clock.now())
  }
}
