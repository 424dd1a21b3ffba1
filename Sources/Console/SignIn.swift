import Actions
import Foundation
import HTTP
import HTTPTypes
import Platform
import Requests

/// A proxy that signs people in and names them in a header field.
///
/// The field counts on a connection from a trusted proxy alone. Such a proxy replaces the field that a browser sends;
/// one that adds a second field passes a forged one on, so two fields name no one.
package struct SingleSignOn: Sendable {
  private let header: HTTPField.Name
  private let proxies: TrustedProxies
  private let host: String

  /// - Parameters:
  ///   - header: the name of the field.
  ///   - host: the host name of the console, in lower case. The field counts in no request for another one: a page elsewhere can have
  ///     its own name lead to the proxy (DNS rebinding), and is then of the same origin.
  /// - Returns: `nil` for a text that is no name of a field.
  package init?(header: String, from proxies: TrustedProxies, host: String) {
    guard let name = HTTPField.Name(header) else { return nil }
    self.header = name
    self.proxies = proxies
    self.host = host
  }

  /// What the proxy says of a request.
  enum Claim: Equatable {
    case none
    case name(String)
    /// The field came more than once.
    case unclear
  }

  func claim(in request: Request) -> Claim {
    guard proxies.contain(IPAddress(request.remoteAddress)), isForConsole(request) else { return .none }
    let values = request.headers[values: header]
    guard values.count < 2 else { return .unclear }
    // The decoder has removed blanks and tabs around it. All others belong to the name.
    let name = values.first ?? ""
    return name.isEmpty ? .none : .name(name)
  }

  private func isForConsole(_ request: Request) -> Bool {
    guard let authority = request.authority?.lowercased() else { return false }
    return authority == host
      || authority.hasPrefix(host + ":") && authority.dropFirst(host.count + 1).allSatisfy(\.isWholeNumber)
  }
}

/// Sign-in and sign-out.
extension Console {
  /// The person of a request's session. Where the proxy names another person, someone else has signed in there since.
  /// - Returns: `nil` without a session that counts.
  func person(of request: Request) async throws -> Person? {
    guard let secret = BrowserRules.secret(in: request),
      let person = try await parts.people.person(of: secret)
    else { return nil }
    switch parts.singleSignOn?.claim(in: request) ?? .none {
    case .none: return person
    case .name(let name): return name.utf8.elementsEqual(person.name.utf8) ? person : nil
    case .unclear: return nil
    }
  }

  /// Leads to the first screen of the person.
  func start(for request: Request) async throws -> Response {
    try await catching(request, nil) {
      guard let person = try await person(of: request),
        let screen = visibleScreens(for: person).first(where: { $0.entry != nil })
      else { return signInRedirect(for: request) }
      return Self.redirect(to: screen.path)
    }
  }

  private struct SignIn: Sendable {
    var next: String?
    var problem: String?
    /// The name that the proxy gives.
    var name: String?
  }

  private func signInContent(
    _ request: Request, next: String?, problem: String? = nil
  ) throws -> [UInt8] {
    var content = SignIn(next: next, problem: problem)
    if case .name(let name) = parts.singleSignOn?.claim(in: request) { content.name = name }
    return try templates.render("signin", content, in: ConsoleTemplates.Frame(title: "Sign in"))
  }

  /// The page that signs in.
  func signInPage(for request: Request) throws -> Response {
    Response(
      headers: Self.pageHeaders,
      body: try signInContent(request, next: Self.localPath(request.query["next"])))
  }

  /// Signs a person in. The token of a person is always looked up, so that an attacker behind the same address cannot
  /// lock people out; an address with many failed attempts gets 429 for further ones.
  func signIn(_ request: Request) async throws -> Response {
    try BrowserRules.checkOrigin(of: request)
    let form = try BrowserRules.form(in: request)
    let next = Self.localPath(form["next"])
    let text = form["token"]?.trimmingCharacters(in: .whitespaces) ?? ""
    let claim = parts.singleSignOn?.claim(in: request) ?? .none
    var secret: SessionSecret?
    var fault = "This is not the token of a person who can sign in."
    if text.isEmpty, claim != .none {
      switch claim {
      case .name(let name):
        secret = try await parts.people.beginSession(named: name)
        fault =
          "The proxy names '\(name)', and no person with exactly this name can sign in. A lead adds people."
      case .unclear, .none:
        fault = "The proxy passes on more than one name. It must replace the header that a browser sends."
      }
    } else if let token = PersonToken(text), let begun = try await parts.people.beginSession(token) {
      // The person was seen, as by a command.
      _ = try await parts.people.signIn(token)
      secret = begun.secret
      if case .name(let name) = claim, !name.utf8.elementsEqual(begun.person.name.utf8) {
        try await parts.people.endSession(begun.secret)
        secret = nil
        fault = "The proxy names '\(name)', and the token is of another person."
      }
    }
    if let secret {
      var response = Self.redirect(to: next ?? "/console")
      response.headers[.setCookie] = BrowserRules.setCookie(secret, for: request)
      return response
    }
    try parts.rateLimits.checkSignIns(of: request)
    parts.rateLimits.noteFailedSignIn(of: request)
    var problem = ServiceError.unknownSupportToken
    problem.page = try signInContent(request, next: next, problem: fault)
    problem.headers.append(contentsOf: Self.pageHeaders)
    throw problem
  }

  /// Ends the session, on every server.
  func signOut(_ request: Request) async throws -> Response {
    try BrowserRules.checkOrigin(of: request)
    if let secret = BrowserRules.secret(in: request) { try await parts.people.endSession(secret) }
    var response = Self.redirect(to: "/console/sign-in")
    response.headers[.setCookie] = BrowserRules.setCookie(nil, for: request)
    return response
  }

  /// Leads to the page that signs in, and back to the one that was asked for.
  func signInRedirect(for request: Request) -> Response {
    let isPage = request.method == .get && request.path != "/console"
    let asked = request.query.raw.isEmpty ? request.path : "\(request.path)?\(request.query.raw)"
    return Self.redirect(to: link("/console/sign-in", ["next": isPage ? asked : nil]))
  }

  /// A path of the console that a form named; `nil` for an address elsewhere.
  static func localPath(_ text: String?) -> String? {
    guard let text, text == "/console" || text.hasPrefix("/console/"), !text.contains("\\"),
      text.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F }), text.utf8.count <= 2_000
    else { return nil }
    return text
  }

  /// 303 to a path of the console.
  static func redirect(to path: String) -> Response {
    var headers = BrowserRules.headers
    headers[.location] = path
    return Response(status: .seeOther, headers: headers)
  }
}
