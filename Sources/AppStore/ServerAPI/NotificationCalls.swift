extension AppStoreServerAPI {
  /// Reads one page of the notifications that the App Store sent or tried to send (Get Notification History): up to 20,
  /// reaching 180 days back in production and 30 in the sandbox.
  ///
  /// - Parameter paginationToken: the token of the previous page; nil for the first page.
  public func notificationHistory(
    _ request: NotificationHistoryRequest, paginationToken: String? = nil, in environment: Environment
  ) async throws(AppStoreServerError) -> NotificationHistoryResponse {
    try await call(
      ServerCall(
        .notificationHistory, ["inApps", "v1", "notifications", "history"],
        query: paginationToken.map { [("paginationToken", $0)] } ?? [], json: request),
      in: environment)
  }

  /// Asks the App Store to send a notification of type TEST (Request a Test Notification).
  public func requestTestNotification(
    in environment: Environment
  ) async throws(AppStoreServerError) -> SendTestNotificationResponse {
    try await call(
      ServerCall(.requestTestNotification, ["inApps", "v1", "notifications", "test"]), in: environment)
  }

  /// Reads the delivery attempts of a test notification (Get Test Notification Status).
  public func testNotificationStatus(
    _ testNotificationToken: String, in environment: Environment
  ) async throws(AppStoreServerError) -> CheckTestNotificationResponse {
    let token = try testNotificationToken.asPathSegment("testNotificationToken")
    return try await call(
      ServerCall(.testNotificationStatus, ["inApps", "v1", "notifications", "test", token]), in: environment)
  }
}
