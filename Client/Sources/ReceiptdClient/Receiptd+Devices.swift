import Foundation

extension Receiptd {
  /// Starts the app's own free time, or reads it. Call it at each launch: the app transaction also proves the device.
  /// - Parameter appTransaction: the `jwsRepresentation` of `AppTransaction.shared`.
  /// - Throws: ``ReceiptdError``.
  @discardableResult
  public func startTrial(appTransaction: String) async throws -> Trial {
    let customer = try device()
    keepProof(signedAppTransaction: appTransaction)
    let (generation, number) = (generation, nextNumber())
    let response = try await api.send(trialCall(appTransaction, of: customer))
    let answer = try API.read(API.EntitlementsAnswer.self, from: response)
    guard let trial = answer.trial else {
      throw ReceiptdError.unexpected(status: response.status, "the response has no trial")
    }
    let pairing = board.state.with { $0.held?.kept.pairing }
    do {
      _ = try await adopt(answer, pairing: pairing, of: customer, generation, number)
      scheduleRefresh()
    } catch let error as ReceiptdError where error.code == .unverified {
      _ = try? await refresh()
    }
    wake()
    return trial
  }

  /// Makes a code that the parent's device shows, and a child's device sends with ``join(code:name:appTransaction:)`` within ten minutes.
  /// - Throws: ``ReceiptdError``.
  public func pairingCode() async throws -> PairingCode {
    let response = try await proving(API.device(device(), "POST", ["pairing-codes"]))
    return try API.read(PairingCode.self, from: response)
  }

  private struct Join: Codable {
    var pairingCode: String
    var name: String?
    var signedAppTransaction: String?
  }

  private struct Joined: Codable {
    var pairing: Pairing?
  }

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
    keepProof(signedAppTransaction: appTransaction)
    let body = try API.encoder.encode(
      Join(pairingCode: code, name: name, signedAppTransaction: appTransaction ?? keptAppTransaction))
    let response = try await proving(API.device(device(), "PUT", ["parent"], body: body))
    guard let pairing = try API.read(Joined.self, from: response).pairing else {
      throw ReceiptdError.unexpected(status: response.status, "the response has no pairing")
    }
    refreshDue = uptime
    _ = try? await refresh()
    return pairing
  }

  private struct Children: Codable {
    var children: [ChildDevice]
  }

  /// The devices that are paired to this one, in the order of pairing.
  /// - Throws: ``ReceiptdError``.
  public func children() async throws -> [ChildDevice] {
    let response = try await proving(API.device(device(), "GET", ["children"]))
    return try API.read(Children.self, from: response).children
  }

  /// Ends the pairing of a child's device.
  /// - Returns: the remaining devices.
  /// - Throws: ``ReceiptdError``; ``ReceiptdError/Code-swift.struct/notFound`` if the device is not paired.
  @discardableResult
  public func unpair(child: String) async throws -> [ChildDevice] {
    let response = try await proving(API.device(device(), "DELETE", ["children", child]))
    return try API.read(Children.self, from: response).children
  }

  private struct Consent: Codable {
    var consent: Bool
    var bundleID: String
    var deviceID: String?
  }

  /// Gives or withdraws the customer's consent to answer Apple about refunds.
  /// - Throws: ``ReceiptdError``.
  public func consent(_ given: Bool) async throws {
    load()
    guard let customer else { throw ReceiptdError.notSignedIn }
    var body = Consent(consent: given, bundleID: configuration.bundleID)
    if case .device(let id) = customer { body.deviceID = id }
    _ = try await proving(api.post(["consent"], body, of: customer))
  }

  private func device() throws -> Customer {
    load()
    guard let customer else { throw ReceiptdError.notSignedIn }
    guard case .device = customer else {
      throw ReceiptdError.wrongKind("only a customer that is a device can do this")
    }
    return customer
  }
}
