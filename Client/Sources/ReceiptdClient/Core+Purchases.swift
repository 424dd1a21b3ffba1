import Foundation

extension Core {
  @inline(never) func submit(_ proof: Proof) async throws -> Access {
    let customer = try signedIn()
    if case .device = customer {
      switch proof {
      case .signedTransaction(let jws, _): keepProof(signedTransaction: jws)
      case .transactionID(_, let app), .receipt(_, let app): keepProof(signedAppTransaction: app)
      }
    }
    return try await outcome(
      of: enqueue(QueuedProof(proof, of: customer, app: configuration.bundleID)))
  }

  @inline(never) func sync(_ signedTransactions: [String], appTransaction: String?) async throws -> Access {
    let queued = try enqueue(signedTransactions, appTransaction)
    var refused: (any Error)?
    for proof in queued {
      if let error = try await refusal(of: proof) { refused = refused ?? error }
    }
    if !queued.isEmpty && refused == nil { return board.current }
    let access = try await refresh()
    if let refused, !access.isAccessGranted { throw refused }
    return access
  }

  /// Sends a queued purchase.
  /// - Returns: the server's final refusal; `nil` if it accepted the purchase.
  @inline(never) private func refusal(of proof: QueuedProof) async throws -> (any Error)? {
    do {
      _ = try await outcome(of: proof)
      return nil
    } catch {
      if ReceiptdError.advice(error) == .giveUp { return error }
      throw error
    }
  }

  @inline(never) private func enqueue(_ signedTransactions: [String], _ appTransaction: String?) throws
    -> [QueuedProof]
  {
    let customer = try signedIn()
    var queued: [QueuedProof] = []
    if case .device = customer {
      keepProof(signedTransaction: signedTransactions.last, signedAppTransaction: appTransaction)
      for jws in signedTransactions {
        queued.append(
          enqueue(QueuedProof(.signedTransaction(jws), of: customer, app: configuration.bundleID)))
      }
    } else if !signedTransactions.isEmpty || appTransaction != nil {
      // The server takes 200 transactions and 2 MiB at once.
      var rest = signedTransactions[...]
      repeat {
        let app = queued.isEmpty ? appTransaction : nil
        queued.append(enqueue(QueuedProof(sync: Array(rest.prefix(100)), app, of: customer)))
        rest = rest.dropFirst(100)
      } while !rest.isEmpty
    }
    return queued
  }

  /// Puts a purchase into the queue, unless it waits there already.
  /// - Returns: the one in the queue.
  @inline(never) private func enqueue(_ proof: QueuedProof) -> QueuedProof {
    if let same = proofs.first(where: { $0.customer == proof.customer && $0.body == proof.body }) {
      return same
    }
    proofs.append(proof)
    saveProofs()
    return proof
  }

  /// Sends a queued purchase now, or waits for the one that sends it.
  @inline(never) private func outcome(of proof: QueuedProof) async throws -> Access {
    let attempts = proof.attempts
    await proofTurn.enter()
    if proof.attempts == attempts { await attempt(proof) }
    await proofTurn.leave()
    wake()
    guard let outcome = proof.outcome else { throw CancellationError() }
    return try outcome.get()
  }

  /// Sends what is due, in the order of arrival, until the server is away.
  @inline(never) func sendProofs() async {
    await proofTurn.enter()
    for proof in proofs where isDue(proof) {
      guard proofPace.due <= uptime else { break }
      await attempt(proof)
    }
    await proofTurn.leave()
  }

  @inline(never) private func isDue(_ proof: QueuedProof) -> Bool {
    proof.customer == customer && proof.pace?.due ?? 0 <= uptime
  }

  /// Sends one purchase. The caller has the turn.
  @inline(never) private func attempt(_ proof: QueuedProof) async {
    guard proofs.contains(where: { $0 === proof }) else { return }
    do {
      proof.outcome = .success(try await send(proof))
    } catch {
      proof.outcome = .failure(error)
    }
    proof.attempts += 1
  }

  @inline(never) private func send(_ proof: QueuedProof) async throws -> Access {
    guard proof.customer == customer else { throw ReceiptdError.customerChanged }
    if let refusal = proofPace.refusal(at: uptime) ?? proof.pace?.refusal(at: uptime) { throw refusal }
    let generation = generation
    let answer: JSON
    do {
      answer = try await entitlements(api.call(proof))
    } catch {
      failed(proof, error)
      throw error
    }
    finish(proof)
    proofPace.succeed()
    serverAnswered()
    return try await access(after: answer, of: proof.customer, generation)
  }

  @inline(never) private func failed(_ proof: QueuedProof, _ error: any Error) {
    guard let error = error as? ReceiptdError else { return }
    if error.isFinal {
      finish(proof)
      serverAnswered()
    } else if error.code == .internal || error.code == .storeUnavailable || error.advice == .restore {
      // The fault of this purchase, or of the App Store for a bare id: the others need not wait.
      var pace = proof.pace ?? Pace()
      pace.fail(error, at: uptime, random: configuration.random())
      proof.pace = pace
    } else {
      proofPace.fail(error, at: uptime, random: configuration.random())
    }
  }

  @inline(never) private func finish(_ proof: QueuedProof) {
    proofs.removeAll { $0 === proof }
    saveProofs()
  }

  /// What the customer may do after the server accepted a purchase. Where the response has no token that can be taken, the
  /// server is asked once more.
  @inline(never) private func access(
    after answer: JSON, of customer: Customer, _ generation: Int
  ) async throws -> Access {
    do {
      return try await adopt(answer, pairing: board.held?.pairing, of: customer, generation)
    } catch {
      guard ReceiptdError.isUnverified(error) else { throw error }
    }
    do {
      return try await refresh()
    } catch {
      guard ReceiptdError.advice(error) == .retry else { throw error }
      refreshDue = uptime
      return board.current
    }
  }
}
