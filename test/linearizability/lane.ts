/** What a lane of a process works with. Each lane does one operation after the other until its time is over. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Framework } from '../../src/framework/context.ts'
import type { History } from './history.ts'

/** What all lanes of a round share: made by the test, once for each round. */
export interface Round {
  readonly seed: number
  readonly seconds: number
  readonly subjects: readonly SubjectKind[]
  readonly integrations: Readonly<Record<'plain' | 'knowing' | 'oauth', number>> & {
    readonly webhooks: number
    readonly limited: number
    readonly joined: number
  }
  readonly webhooks: readonly number[]
}

export const SUBJECTS = ['claims', 'limiter', 'ledger', 'locks', 'tokens'] as const
export type SubjectKind = (typeof SUBJECTS)[number]

export interface Lane {
  readonly framework: Framework
  readonly history: History
  readonly round: Round
  /** Of all processes, from 0. */
  readonly client: number
  /** From 0 up to 1. */
  readonly random: () => number
  /** A name that no other operation has. */
  readonly name: () => string
  readonly isOver: () => boolean
  /** What has begun: an object of this moment is called by it, so that no history grows long. */
  readonly slice: () => number
}

export function pick<T>({ random }: Lane, from: readonly T[]): T {
  return from[Math.floor(random() * from.length)] as T
}

export const rest = ({ random }: Lane, longestMs: number): Promise<void> => sleep(random() * longestMs)
