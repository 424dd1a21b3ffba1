import Actions
import Crypto
import HTTP
import HTTPTypes
import Requests

/// Recognizes the actor behind a bearer token: `SUPPORT_TOKEN`, or the token of a person.
struct SupportSignIn: Sendable {
  private let machine: SHA256Digest?
  private let people: People
  private let rateLimits: ClientRateLimits

  /// - Parameter token: `SUPPORT_TOKEN`, if it is set.
  init(token: String?, people: People, rateLimits: ClientRateLimits) {
    machine = token.map(Self.digest)
    self.people = people
    self.rateLimits = rateLimits
  }

  /// The actor of a token; `nil` for an unknown one.
  /// - Throws: errors of the database.
  func actor(of token: String) async throws -> SupportActor? {
    if isMachine(token) { return .machine() }
    guard let token = PersonToken(token) else { return nil }
    return try await people.signIn(token).map(SupportActor.person)
  }

  /// The actor of a request.
  ///
  /// An address with many failed attempts cannot try `SUPPORT_TOKEN` for a while, because a person may have chosen a
  /// weak one. The token of a person cannot be guessed and is always looked up, so that an attacker cannot lock people
  /// out.
  ///
  /// - Throws: ``Problem`` `unauthenticated` or `rate_limited`; errors of the database.
  func actor(of request: Request) async throws -> SupportActor {
    guard let field = request.headers[.authorization], field.utf8.count > 7,
      field.prefix(7).lowercased() == "bearer "
    else { throw ServiceError.noSupportToken }
    let token = String(field.dropFirst(7))
    if let token = PersonToken(token), let person = try await people.signIn(token) { return .person(person) }
    try rateLimits.checkSignIns(of: request)
    if isMachine(token) { return .machine() }
    rateLimits.noteFailedSignIn(of: request)
    throw ServiceError.unknownSupportToken
  }

  /// Compares digests in constant time, so that the time reveals neither the token's length nor its characters.
  private func isMachine(_ token: String) -> Bool { machine.map { Self.digest(token) == $0 } ?? false }

  private static func digest(_ token: String) -> SHA256Digest { SHA256.hash(data: Array(token.utf8)) }
}

extension Service {
  /// The actor of a command's token.
  /// - Throws: ``SupportRefusal`` for an unknown token; errors of the database.
  package func signIn(_ token: String) async throws -> SupportActor {
    guard let actor = try await signIn.actor(of: token) else {
      throw SupportRefusal.forbidden(
        "RECEIPTD_TOKEN is not the token of a person who can sign in. A lead gives a new one: receiptd people add."
      )
    }
    return actor
  }
}
