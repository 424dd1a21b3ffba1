import Authentication
import Configuration
import Customers
import HTTP
import Postgres
import Requests
import Work

/// Clients' events, and the KPIs that are counted from them and from facts.
package struct NumberRoom: Room {
  let catalog: AppCatalog
  let pool: PostgresPool
  let clock: ServiceClock
  /// `POST /api/v1/events`.
  package let events: EventIntake
  /// The views for support.
  package let route: NumbersRoute
  /// The figures of the console's pages.
  package let figures: BusinessFigures
  package let counter: KPICounter
  let kpiJob: KPIJob

  package init(
    catalog: AppCatalog, pool: PostgresPool, authenticator: Authenticator, charges: DayCharges,
    rateLimits: ClientRateLimits, clock: ServiceClock, metrics: EventMetrics
  ) {
    self.catalog = catalog
    self.pool = pool
    self.clock = clock
    events = EventIntake(
      apps: AppOfRequest(catalog: catalog), authenticator: authenticator, charges: charges,
      rateLimits: rateLimits, clock: clock, metrics: metrics)
    route = NumbersRoute(catalog: catalog, pool: pool, clock: clock)
    figures = BusinessFigures(pool: pool, clock: clock)
    counter = KPICounter(catalog: catalog, pool: pool, clock: clock)
    kpiJob = KPIJob(counter: counter)
  }

  package var jobs: [BackgroundJob] { [kpiJob.job] }
}
