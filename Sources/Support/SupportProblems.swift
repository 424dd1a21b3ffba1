import Actions
import HTTP
import Ledger
import Requests

/// Maps the refusals of support's actions to responses.
/// - Throws: ``Problem``; other errors of `body`.
package func mappingRefusals<R>(_ body: () async throws -> R) async throws -> R {
  do {
    return try await body()
  } catch let refusal as SupportRefusal {
    throw switch refusal.kind {
    case .invalid: Problem.invalidRequest(refusal.description)
    case .notFound: Problem.notFound(refusal.description)
    case .alreadyDone: ServiceError.alreadyDone(refusal.description)
    case .forbidden: ServiceError.notAllowed(refusal.description)
    }
  } catch let failure as ReplayFailure {
    throw switch failure {
    case .notKept: Problem.notFound("No notification with this UUID is kept.")
    case .erased:
      Problem.invalidRequest("The notification's customer was erased: there is nothing to replay.")
    case .notVerified(let reason):
      Problem.invalidRequest("The notification's signature is not accepted any more: \(reason)")
    }
  }
}
