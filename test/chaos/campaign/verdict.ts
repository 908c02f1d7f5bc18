/** What a campaign is judged by, and how a judgement reads. */
import type { Happened } from '../inbox-faults.ts'
import type { SentLoad } from './load.ts'
import type { Operators } from './operators.ts'
import type { Quiet } from './quiet.ts'
import type { CampaignStack } from './stack.ts'
import type { Watched } from './watch.ts'

export interface Verdict {
  readonly promise: string
  readonly counts: string
  /** What breaks it, a line each. Empty: it is kept. */
  readonly broken: readonly string[]
}

export interface Evidence {
  readonly stack: CampaignStack
  readonly operators: Operators
  readonly sent: SentLoad
  readonly story: readonly Happened[]
  readonly watched: Watched
  readonly quiet: Quiet
}

export const sum = (numbers: readonly number[]): number => numbers.reduce((total, one) => total + one, 0)

export const count = (number: number): string => number.toLocaleString('en-US')
