import Foundation

extension Core {
  @inline(never) func startTrial(appTransaction: String) async throws -> Trial {
    let customer = try device()
    keepProof(signedAppTransaction: appTransaction)
    let generation = generation
    let answer = try await api.send(trialCall(appTransaction, of: customer))
    guard let trial = Trial(answer["trial"]) else {
      throw ReceiptdError.unexpected(status: 200, "the response has no trial")
    }
    do {
      _ = try await adopt(answer, pairing: board.held?.pairing, of: customer, generation)
      scheduleRefresh()
    } catch {
      guard ReceiptdError.isUnverified(error) else { throw error }
      _ = try? await refresh()
    }
    wake()
    return trial
  }

  @inline(never) func pairingCode() async throws -> PairingCode {
    let answer = try await proving(API.device(device(), "POST", ["pairing-codes"]))
    guard let code = PairingCode(answer) else {
      throw ReceiptdError.unexpected(status: 200, "the response has no code")
    }
    return code
  }

  @inline(never) func join(code: String, name: String?, appTransaction: String?) async throws -> Pairing {
    keepProof(signedAppTransaction: appTransaction)
    let body = JSON.members(
      ("pairingCode", .text(code)), ("name", JSON(name)),
      ("signedAppTransaction", JSON(appTransaction ?? keptAppTransaction)))
    let answer = try await proving(API.device(device(), "PUT", ["parent"], body: body.data))
    guard let pairing = Pairing(answer["pairing"]) else {
      throw ReceiptdError.unexpected(status: 200, "the response has no pairing")
    }
    refreshDue = uptime
    _ = try? await refresh()
    return pairing
  }

  @inline(never) func children(_ method: String, _ path: [String]) async throws -> [ChildDevice] {
    let answer = try await proving(API.device(device(), method, path))
    guard case .list(let children)? = answer["children"] else {
      throw ReceiptdError.unexpected(status: 200, "the response has no list of children")
    }
    return children.compactMap { ChildDevice($0) }
  }

  @inline(never) func consent(_ given: Bool) async throws {
    let customer = try signedIn()
    var device: JSON?
    if case .device(let id) = customer { device = .text(id) }
    let body = JSON.members(
      ("consent", .flag(given)), ("bundleID", .text(configuration.bundleID)), ("deviceID", device))
    _ = try await proving(API.post("consent", body, of: customer))
  }

  @inline(never) private func device() throws -> Customer {
    let customer = try signedIn()
    guard case .device = customer else {
      throw ReceiptdError.wrongKind("only a customer that is a device can do this")
    }
    return customer
  }
}
