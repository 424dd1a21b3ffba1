import Foundation

/// A client of one receiptd for one app: what the signed-in customer may do, also offline, and purchases that are not lost.
///
/// Make one for the app's life, call ``run()`` in a task, and ``signIn(_:)`` when the customer is known. Only one process may
/// use a store at a time.
public actor Receiptd<Features: Codable & Sendable> {
  /// The client without the type of the features.
  nonisolated let core: Core
  private let free: Features

  /// Creates a client. It reads nothing yet.
  /// - Parameters:
  ///   - free: the features without access, and while nothing is known.
  ///   - token: the user's access token; `refresh` is true after the server refused the last one. `nil` means that no user is
  ///     signed in. Apps whose customers are devices return `nil`.
  ///   - deviceVerdict: StoreKit's own verdict, which stands in while the server is away and no signed entitlement is valid.
  ///     Without it such a customer has the free features.
  public init(
    _ configuration: ReceiptdConfiguration, free: Features,
    token: @escaping @Sendable (_ refresh: Bool) async throws -> String? = { _ in nil },
    deviceVerdict: (@Sendable (Customer) async -> DeviceVerdict<Features>?)? = nil
  ) {
    self.init(configuration, free: free, customer: nil, token: token, deviceVerdict: deviceVerdict)
  }

  /// Creates a client with a signed-in customer, for a fake.
  init(
    _ configuration: ReceiptdConfiguration, free: Features, customer: Customer?,
    token: @escaping @Sendable (Bool) async throws -> String?,
    deviceVerdict: (@Sendable (Customer) async -> DeviceVerdict<Features>?)? = nil
  ) {
    self.free = free
    var verdict: (@Sendable (Customer) async -> Access?)?
    if let deviceVerdict {
      verdict = { customer in
        guard let found = await deviceVerdict(customer) else { return nil }
        return Access(deviceVerdict: found.features, tier: found.tier, validUntil: found.validUntil)
      }
    }
    core = Core(
      configuration, free: free, customer: customer, token: token, verdict: verdict,
      features: { try JSONDecoder().decode(FeaturesMember<Features>.self, from: $0).features })
  }

  /// The configuration with which the client was created.
  public nonisolated var configuration: ReceiptdConfiguration { core.configuration }

  private nonisolated func entitlement(_ access: Access) -> Entitlement<Features> {
    Entitlement(access, free: free)
  }

  // MARK: Access

  /// What the customer may do now. It needs no network and no disk: the free features while nothing is known.
  public nonisolated var current: Entitlement<Features> { entitlement(core.board.current) }

  /// The entitlement now, and each change of it. Each call makes a stream of its own that begins with the current entitlement. Only
  /// the latest waits for a slow reader.
  public nonisolated var updates: AsyncStream<Entitlement<Features>> {
    let (board, free) = (core.board, free)
    return AsyncStream(bufferingPolicy: .bufferingNewest(1)) { continuation in
      let listener = Board.Listener { continuation.yield(Entitlement($0, free: free)) }
      continuation.onTermination = { [weak board] _ in board?.remove(listener) }
      board.add(listener)
      listener.tell(board.current)
    }
  }

  /// Makes this customer the current one, and refreshes in the background.
  /// - Returns: what is kept of the customer, at once.
  @discardableResult
  public func signIn(_ customer: Customer) async -> Entitlement<Features> {
    entitlement(await core.signIn(customer))
  }

  /// Ends the customer's session and forgets what is kept of the customer's entitlement. Purchases that the server has not yet
  /// answered stay, and are sent when the same customer signs in again.
  public func signOut() async { await core.signOut() }

  /// Asks the server what the customer may do. Calls at the same time share one request.
  /// - Throws: ``ReceiptdError``; ``current`` is what is kept then.
  @discardableResult
  public func refresh() async throws -> Entitlement<Features> { entitlement(try await core.refresh()) }

  /// Does what is due until the task is cancelled: refreshes when the entitlement changes and at the refresh interval, sends
  /// purchases and events, and repeats what failed. Call it once, in a task that lives as long as the app.
  public func run() async { await core.run() }

  // MARK: Purchases

  /// Shows a purchase to the server. It waits on disk until the server has answered finally, also after the app was ended, so a
  /// purchase is never lost: after an error whose advice is not ``ReceiptdError/Advice/giveUp``, ``run()`` sends it again.
  /// Finish the StoreKit transaction after a result, or after an error with that advice.
  /// - Throws: ``ReceiptdError``.
  @discardableResult
  public func submit(_ proof: Proof) async throws -> Entitlement<Features> {
    entitlement(try await core.submit(proof))
  }

  /// Shows all of StoreKit's transactions, after a restore and at each launch.
  /// - Parameter appTransaction: `AppTransaction.shared`, which shows an owner from before a date and the Apple Account.
  /// - Throws: ``ReceiptdError`` if the server refused a transaction and the customer has no access, or cannot answer now.
  @discardableResult
  public func sync(
    _ signedTransactions: [String], appTransaction: String?
  ) async throws -> Entitlement<Features> {
    entitlement(try await core.sync(signedTransactions, appTransaction: appTransaction))
  }

  /// Queues an event for the server's numbers. It is kept on disk, sent with others, and counted once. An event whose name or
  /// properties the server would refuse is dropped: 1 to 64 letters, digits, `_`, `-` and `.`, beginning with a letter, and 2 KiB
  /// of properties.
  public func track(_ event: String, _ properties: [String: EventValue] = [:]) async {
    await core.track(event, properties)
  }

  // MARK: Devices

  /// Starts the app's own free time, or reads it. Call it at each launch: the app transaction also proves the device.
  /// - Parameter appTransaction: the `jwsRepresentation` of `AppTransaction.shared`.
  /// - Throws: ``ReceiptdError``.
  @discardableResult
  public func startTrial(appTransaction: String) async throws -> Trial {
    try await core.startTrial(appTransaction: appTransaction)
  }

  /// Makes a code that the parent's device shows, and a child's device sends with ``join(code:name:appTransaction:)`` within ten minutes.
  /// - Throws: ``ReceiptdError``.
  public func pairingCode() async throws -> PairingCode { try await core.pairingCode() }

  /// Joins the parent's device whose code this is. From then on this device has its parent's features.
  ///
  /// With an app transaction, the latest that ``startTrial(appTransaction:)``, ``sync(_:appTransaction:)`` or this call was given,
  /// no other Apple Account gets a secret for this device, and this one gets a new secret after a loss.
  /// - Parameters:
  ///   - name: the name that the parent sees, such as "Emma's iPad".
  ///   - appTransaction: StoreKit's `AppTransaction.shared`, signed.
  /// - Throws: ``ReceiptdError``.
  @discardableResult
  public func join(code: String, name: String? = nil, appTransaction: String? = nil) async throws -> Pairing {
    try await core.join(code: code, name: name, appTransaction: appTransaction)
  }

  /// The devices that are paired to this one, in the order of pairing.
  /// - Throws: ``ReceiptdError``.
  public func children() async throws -> [ChildDevice] { try await core.children("GET", ["children"]) }

  /// Ends the pairing of a child's device.
  /// - Returns: the remaining devices.
  /// - Throws: ``ReceiptdError``; ``ReceiptdError/Code-swift.struct/notFound`` if the device is not paired.
  @discardableResult
  public func unpair(child: String) async throws -> [ChildDevice] {
    try await core.children("DELETE", ["children", child])
  }

  /// Gives or withdraws the customer's consent to answer Apple about refunds.
  /// - Throws: ``ReceiptdError``.
  public func consent(_ given: Bool) async throws { try await core.consent(given) }
}
