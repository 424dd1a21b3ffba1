import HTTP
import Work

/// What a module of the product gives to the service, which lists the rooms and knows no more of most of their parts.
package protocol Room: Sendable {
  /// Adds the routes for clients that have the usual limits and keep refusals for support.
  func addRoutes(to router: inout Router)
  /// The jobs that run at all times.
  var jobs: [BackgroundJob] { get }
}

extension Room {
  package func addRoutes(to router: inout Router) {}
}
