import Foundation

extension Receiptd {
  /// Shows a purchase to the server. It waits on disk until the server has answered finally, also after the app was ended, so a
  /// purchase is never lost: after an error whose advice is not ``ReceiptdError/Advice/giveUp``, ``run()`` sends it again.
  /// Finish the StoreKit transaction after a result, or after an error with that advice.
  /// - Throws: ``ReceiptdError``.
  @discardableResult
  public func submit(_ proof: Proof) async throws -> Entitlement<Features> {
    load()
    guard let customer else { throw ReceiptdError.notSignedIn }
    if case .device = customer {
      switch proof {
      case .signedTransaction(let jws, _): keepProof(signedTransaction: jws)
      case .transactionID(_, let app), .receipt(_, let app): keepProof(signedAppTransaction: app)
      }
    }
    return try await outcome(of: enqueue(.proof(proof), of: customer))
  }

  /// Shows all of StoreKit's transactions, after a restore and at each launch.
  /// - Parameter appTransaction: `AppTransaction.shared`, which shows an owner from before a date and the Apple Account.
  /// - Throws: ``ReceiptdError`` if the server refused a transaction and the customer has no access, or cannot answer now.
  @discardableResult
  public func sync(_ signedTransactions: [String], appTransaction: String?) async throws -> Entitlement<
    Features
  > {
    load()
    guard let customer else { throw ReceiptdError.notSignedIn }
    let work: [QueuedProof.Work]
    switch customer {
    case .user:
      // The server takes 200 transactions and 2 MiB at once.
      let parts = stride(from: 0, to: max(signedTransactions.count, 1), by: 100).map { start in
        Array(signedTransactions[start..<min(start + 100, signedTransactions.count)])
      }
      if signedTransactions.isEmpty && appTransaction == nil { return try await refresh() }
      work = parts.enumerated().map { .sync($1, $0 == 0 ? appTransaction : nil) }
    case .device:
      keepProof(signedTransaction: signedTransactions.last, signedAppTransaction: appTransaction)
      work = signedTransactions.map { .proof(.signedTransaction($0)) }
    }
    let queued = work.map { enqueue($0, of: customer) }
    var refused: ReceiptdError?
    for id in queued {
      do {
        _ = try await outcome(of: id)
      } catch let error as ReceiptdError where error.isFinal {
        refused = refused ?? error
      }
    }
    let entitlement = queued.isEmpty || refused != nil ? try await refresh() : current
    if let refused, !entitlement.isAccessGranted { throw refused }
    return entitlement
  }

  /// Puts a purchase into the queue, unless it waits there already.
  func enqueue(_ work: QueuedProof.Work, of customer: Customer) -> UUID {
    if let same = proofs.first(where: { $0.customer == customer && $0.work == work }) { return same.id }
    let queued = QueuedProof(customer: customer, work: work)
    proofs.append(queued)
    saveProofs()
    return queued.id
  }

  /// Sends a queued purchase now, or waits for the one that sends it.
  private func outcome(of id: UUID) async throws -> Entitlement<Features> {
    waiting[id, default: 0] += 1
    await proofTurn.enter()
    if outcomes[id] == nil { await attempt(id) }
    await proofTurn.leave()
    let outcome = outcomes[id]
    waiting[id, default: 1] -= 1
    if waiting[id] == 0 {
      waiting[id] = nil
      outcomes[id] = nil
    }
    wake()
    guard let outcome else { throw CancellationError() }
    return try outcome.get()
  }

  /// Sends what is due, in the order of arrival, until the server is away.
  func sendProofs() async {
    await proofTurn.enter()
    for queued in proofs where queued.customer == customer {
      if let pace = itemPaces[queued.id], pace.due > uptime { continue }
      guard proofPace.due <= uptime else { break }
      await attempt(queued.id)
      if waiting[queued.id] == nil { outcomes[queued.id] = nil }
    }
    await proofTurn.leave()
  }

  /// Sends one purchase. The caller has the turn.
  private func attempt(_ id: UUID) async {
    guard let queued = proofs.first(where: { $0.id == id }) else { return }
    guard queued.customer == customer else {
      outcomes[id] = .failure(ReceiptdError.customerChanged)
      return
    }
    let refusal = proofPace.refusal(at: uptime) ?? itemPaces[id]?.refusal(at: uptime)
    if let refusal {
      outcomes[id] = .failure(refusal)
      return
    }
    let (generation, number) = (generation, nextNumber())
    do {
      let response = try await proving(api.call(queued.work, of: queued.customer))
      let answer = try API.read(API.EntitlementsAnswer.self, from: response)
      finish(id)
      proofPace.succeed()
      serverAnswered()
      outcomes[id] = .success(try await entitlement(after: answer, of: queued.customer, generation, number))
    } catch let error as ReceiptdError {
      outcomes[id] = .failure(error)
      guard proofs.contains(where: { $0.id == id }) else { return }
      failed(id, error)
    } catch {
      outcomes[id] = .failure(error)
    }
  }

  private func failed(_ id: UUID, _ error: ReceiptdError) {
    if error.isFinal {
      finish(id)
      serverAnswered()
    } else if [.internal, .storeUnavailable].contains(error.code) || error.advice == .restore {
      // The fault of this purchase, or of the App Store for a bare id: the others need not wait.
      itemPaces[id, default: Pace()].fail(error, at: uptime, random: configuration.random())
    } else {
      proofPace.fail(error, at: uptime, random: configuration.random())
    }
  }

  private func finish(_ id: UUID) {
    proofs.removeAll { $0.id == id }
    itemPaces[id] = nil
    saveProofs()
  }

  /// What the customer may do after the server accepted a purchase. Where the response has no token that can be taken, the
  /// server is asked once more.
  private func entitlement(
    after answer: API.EntitlementsAnswer, of customer: Customer, _ generation: Int, _ number: Int
  ) async throws -> Entitlement<Features> {
    do {
      let pairing = board.state.with { $0.held?.kept.pairing }
      return try await adopt(answer, pairing: pairing, of: customer, generation, number)
    } catch let error as ReceiptdError where error.code == .unverified {
      do {
        return try await refresh()
      } catch let error as ReceiptdError where error.advice == .retry {
        refreshDue = uptime
        return current
      }
    }
  }
}
