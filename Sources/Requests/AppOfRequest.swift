import Configuration
import HTTP
import Subscriptions

/// Finds the app that a request is about. In this order: the app of the signed proof, the `bundleID` that the client
/// sent, the app with the request's `Host`, the default app, the only app.
///
/// Old builds send no `bundleID`. A `bundleID` that is not the proof's app is an error.
package struct AppOfRequest: Sendable {
  package let catalog: AppCatalog

  package init(catalog: AppCatalog) {
    self.catalog = catalog
  }

  /// The app of a signed proof.
  ///
  /// - Parameters:
  ///   - proven: the bundle id in the proof.
  ///   - named: the `bundleID` that the client sent, if any.
  ///   - kind: the kind of customers that the route is for; `nil` for both.
  ///   - proof: the noun for the proof in errors.
  /// - Throws: 422 `wrong_app`.
  package func app(
    proven: String, named: String?, customers kind: CustomerKind? = nil, by proof: String
  ) throws(Problem) -> App {
    guard let app = catalog[proven] else {
      throw ServiceError.wrongApp("No app with the \(proof)'s bundle id is configured.")
    }
    if let named, named != proven {
      throw ServiceError.wrongApp("The \(proof) is not of the app in 'bundleID'.")
    }
    return try check(app, isFor: kind)
  }

  /// The app of a request without a signed proof.
  ///
  /// - Parameters:
  ///   - named: the `bundleID` that the client sent, if any.
  ///   - kind: the kind of customers that the route is for; `nil` for both.
  /// - Throws: 422 `wrong_app`, 400 `invalid_request`.
  package func app(
    of request: Request, named: String?, customers kind: CustomerKind? = nil
  ) throws(Problem) -> App {
    if let named {
      guard let app = catalog[named] else {
        throw ServiceError.wrongApp("No app with this 'bundleID' is configured.")
      }
      return try check(app, isFor: kind)
    }
    let candidates = catalog.apps.filter { kind == nil || $0.customer == kind }
    if let app = implied(by: request, among: candidates) { return app }
    guard let app = candidates.first, candidates.count == 1 else {
      let customers = kind.map { " have \($0.rawValue)s for customers" } ?? " are configured"
      throw .invalidRequest(
        candidates.isEmpty
          ? "No app here has \(kind?.rawValue ?? "user")s for customers."
          : "'bundleID' is needed, because several apps\(customers).")
    }
    return app
  }

  /// The app with the request's `Host`, or else the default app.
  ///
  /// - Parameter candidates: the apps that the request can be about.
  /// - Returns: `nil` if neither is a candidate.
  package func implied(by request: Request, among candidates: [App]) -> App? {
    func candidate(_ app: App?) -> App? { app.flatMap { app in candidates.first { $0 === app } } }
    return candidate(request.hostName.flatMap { catalog.app(atHost: $0) })
      ?? candidates.first(where: \.isDefault)
  }

  private func check(_ app: App, isFor kind: CustomerKind?) throws(Problem) -> App {
    if let kind, app.customer != kind {
      throw ServiceError.wrongApp("The app \(app.bundleID) has no \(kind.rawValue)s for customers.")
    }
    return app
  }
}

extension Request {
  /// The requested host in lower case, without its port. A proxy decides what it passes on as `Host`;
  /// `X-Forwarded-Host` is not read, because any client can send it.
  var hostName: String? {
    guard let authority, !authority.hasPrefix("[") else { return nil }
    let host = authority.prefix { $0 != ":" }.lowercased()
    return host.hasSuffix(".") ? String(host.dropLast()) : host
  }
}
