/// The error for an access token that is refused.
struct RefusedToken: Error, Equatable {
  var reason: TokenRefusal
  /// The claim that the configuration does not accept, for the log: `tokenIssuer` or `tokenAudience`. It is set
  /// only for a token whose signature is right: an attacker must not choose the text.
  var logFields: [String: String] = [:]

  private static let maximumLogged = 200

  init(_ reason: TokenRefusal) { self.reason = reason }

  init(_ reason: TokenRefusal, claims: UserClaims) {
    self.reason = reason
    switch reason {
    case .wrongIssuer: logFields["tokenIssuer"] = claims.iss.map { String($0.prefix(Self.maximumLogged)) }
    case .wrongAudience:
      logFields["tokenAudience"] = claims.aud.map {
        String($0.names.joined(separator: ", ").prefix(Self.maximumLogged))
      }
    default: break
    }
  }

  /// The refusal that comes last in the order of the checks: it says most about the token.
  static func mostTelling(_ refusals: [RefusedToken]) -> RefusedToken? {
    TokenRefusal.allCases.reversed().lazy
      .compactMap { reason in refusals.first { $0.reason == reason } }
      .first
  }
}
