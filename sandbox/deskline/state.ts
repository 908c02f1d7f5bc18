import type { Fault, FaultList } from '../faults.ts'
import type { AuthorizationServer } from './authorization-server.ts'
import type { MinuteQuota } from './minute-quota.ts'
import type { TicketStore } from './tickets.ts'

/** One request as Deskline saw it. */
export interface SeenRequest {
  method: string
  path: string
  query: Record<string, string>
  /** Null: the connection was cut by a fault. */
  status: number | null
  /** Whether an ordered fault struck. */
  faulted: boolean
}

/** What a request carries through its handlers. */
export interface DesklineEnv {
  Variables: { fault: Fault | null }
}

/** Everything that a Deskline remembers. */
export interface DesklineState {
  tickets: TicketStore
  oauth: AuthorizationServer
  faults: FaultList
  quota: MinuteQuota
  requests: SeenRequest[]
  /** Ids of the events that were sent as webhooks. */
  sentEvents: Set<string>
  now: () => Date
}
