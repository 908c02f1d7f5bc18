/** A try that can't run here and now, which is no fault: another one is made soon, however often. */
import type { Duration } from '@temporalio/common'
import { sdk } from './sdk.ts'

const NOT_ITS_TURN = 'not_its_turn'

export function notItsTurn(why: string, nextRetryDelay: Duration): Error {
  return sdk().ApplicationFailure.create({ message: why, type: NOT_ITS_TURN, nextRetryDelay, category: 'BENIGN' })
}

export function isNotItsTurn(error: unknown): boolean {
  return error instanceof sdk().ApplicationFailure && error.type === NOT_ITS_TURN
}
