import Actions
import Foundation
import HTTP
import HTTPTypes

/// What a browser must be told, and what it must tell, so that no other site acts in a person's name.
enum BrowserRules {
  static let cookie = "receiptd_console"

  // All are tokens, so none is ever `accept`.
  private static let frameOptions = HTTPField.Name("X-Frame-Options") ?? .accept
  private static let referrerPolicy = HTTPField.Name("Referrer-Policy") ?? .accept
  private static let openerPolicy = HTTPField.Name("Cross-Origin-Opener-Policy") ?? .accept
  private static let fetchSite = HTTPField.Name("Sec-Fetch-Site") ?? .accept
  private static let forwardedProto = HTTPField.Name("X-Forwarded-Proto") ?? .accept

  /// The header fields of every page.
  static let headers: HTTPFields = [
    .cacheControl: "no-store",
    // Nothing from elsewhere, nothing inline, no frame.
    .contentSecurityPolicy:
      "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
      + "base-uri 'none'; frame-ancestors 'none'",
    .xContentTypeOptions: "nosniff",
    frameOptions: "DENY",
    // The paths have ids of customers. With `no-referrer` a form would send no Origin.
    referrerPolicy: "same-origin",
    openerPolicy: "same-origin",
    .crossOriginResourcePolicy: "same-origin",
  ]

  /// Refuses a write that no page of the console sent.
  ///
  /// Browsers send `Sec-Fetch-Site` to addresses with TLS and to this machine, and `Origin` with every form that is
  /// posted.
  ///
  /// - Throws: 403 `forbidden`.
  static func checkOrigin(of request: Request) throws(Problem) {
    if let site = request.headers[fetchSite] {
      guard site == "same-origin" else { throw foreign }
      return
    }
    guard let origin = request.headers[.origin], let host = request.authority,
      origin == "http://\(host)" || origin == "https://\(host)"
    else { throw foreign }
  }

  private static let foreign = Problem(
    status: .forbidden, code: "forbidden",
    detail:
      "The form was not sent by a page of this console. A proxy in front of it must pass 'Host' on unchanged.",
    message: "This did not come from the console. Open the page again.")

  /// The secret in the cookie of a request.
  static func secret(in request: Request) -> SessionSecret? {
    for field in request.headers[values: .cookie] {
      for pair in field.split(separator: ";") {
        let trimmed = pair.trimmingCharacters(in: .whitespaces)
        guard trimmed.hasPrefix(cookie + "=") else { continue }
        if let secret = SessionSecret(String(trimmed.dropFirst(cookie.count + 1))) { return secret }
      }
    }
    return nil
  }

  /// `Set-Cookie` for a new session; `nil` ends it.
  static func setCookie(_ secret: SessionSecret?, for request: Request) -> String {
    let value = secret?.text ?? ""
    let age = secret == nil ? 0 : Int(People.sessionLength)
    return
      "\(cookie)=\(value); Path=/console; Max-Age=\(age); HttpOnly; SameSite=Strict\(isSecure(request) ? "; Secure" : "")"
  }

  /// Whether the browser uses TLS, by the address that it names or by the proxy's word. A wrong word costs its sender
  /// the cookie, and nothing else.
  private static func isSecure(_ request: Request) -> Bool {
    request.headers[.origin]?.hasPrefix("https://") == true
      || request.headers[forwardedProto]?.lowercased() == "https"
  }

  /// The fields of a form.
  /// - Parameter allowsLines: whether a value may have several lines.
  /// - Throws: 415 `unsupported_media_type`, 400 `invalid_request`.
  static func form(in request: Request, allowsLines: Bool = false) throws(Problem) -> Query {
    let type = request.headers[.contentType]?.split(separator: ";").first?.trimmingCharacters(
      in: .whitespaces)
    guard type?.lowercased() == "application/x-www-form-urlencoded" else {
      throw .unsupportedMediaType("Send the fields of a form.")
    }
    guard let text = String(validating: request.body, as: UTF8.self) else {
      throw .invalidRequest("The form is not in UTF-8.")
    }
    return try Query(decoding: text, allowsLines: allowsLines)
  }
}
