import HTTP
import Work

/// The routes and jobs of one module. `Service` lists the rooms.
package protocol Room: Sendable {
  /// Adds the routes for clients that have the usual limits and keep refusals for support.
  func addRoutes(to router: inout Router)
  /// The jobs that run at all times.
  var jobs: [BackgroundJob] { get }
}

extension Room {
  package func addRoutes(to router: inout Router) {}
}
