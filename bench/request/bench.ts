/**
 * What `integration.request()` costs beside what it is compared with: bare fetch, fetch and an INSERT by hand, and the
 * packages that a user would put together. Method and figures: docs/performance.md, "Outbound calls".
 */
import { closedLoop } from '../closed-loop.ts'
import type { BenchOptions, Comparison, Contender, Figure, Goal, Outcome } from '../frame.ts'
import { compare, inTurn } from '../frame.ts'
import { startBenchPostgres } from '../postgres.ts'
import type { Ours } from './ours.ts'
import { createOurs } from './ours.ts'
import type { Call, Peers } from './peers.ts'
import { createPeers } from './peers.ts'
import { startProvider } from './provider-process.ts'

const CONCURRENCY = 20
const INTEGRATIONS = 20
/** Of each side: ours has such a pool for its own statements, the peers share one. */
const POOL_SIZE = 10
const LIMIT = { calls: 100_000_000, seconds: 60 }

const OURS = 'ours'
const SLIDING = 'ours, sliding window'
const BARE = 'bare fetch'
const BY_HAND = 'fetch + INSERT'
const PACKAGES = 'cockatiel + rate-limiter-flexible + INSERT'

const GOALS = {
  byHand: { direction: 'at least', value: 0.6 },
  packages: { direction: 'at least', value: 1.2 },
  overheadMs: { direction: 'at most', value: 1.5 },
} as const satisfies Record<string, Goal>

interface Lengths {
  readonly rounds: number
  readonly seconds: number
}

const FULL: Lengths = { rounds: 5, seconds: 3 }
const QUICK: Lengths = { rounds: 3, seconds: 0.4 }

export async function benchRequest({ quick, rounds, say }: BenchOptions): Promise<Outcome> {
  say('starting Postgres and the HTTP server')
  // Stopped in the reverse order, also when a start or a round fails.
  const started: (() => Promise<void>)[] = []
  try {
    const provider = await startProvider()
    started.push(provider.stop)
    const server = await startBenchPostgres()
    started.push(server.stop)
    const options = { databaseUrl: server.url, providerUrl: provider.url, poolSize: POOL_SIZE, limit: LIMIT }
    const ours = await createOurs({ ...options, integrations: INTEGRATIONS })
    started.push(ours.close)
    const peers = await createPeers({ ...options, integrationIds: ours.integrationIds })
    started.push(peers.close)
    const lengths = quick ? QUICK : FULL
    return await measure({ ours, peers, say }, { ...lengths, rounds: rounds ?? lengths.rounds })
  } finally {
    for (const stop of started.reverse()) await stop()
  }
}

interface Sides extends Pick<BenchOptions, 'say'> {
  readonly ours: Ours
  readonly peers: Peers
}

async function measure({ ours, peers, say }: Sides, lengths: Lengths): Promise<Outcome> {
  const calls: Record<string, Call> = {
    [OURS]: ours.call,
    [BARE]: peers.bareFetch,
    [BY_HAND]: peers.fetchAndInsert,
    [PACKAGES]: peers.builtFromPackages,
    [SLIDING]: ours.slidingCall,
  }
  const written = { ours: 0, peers: 0 }
  const contender = (name: string, load: 'one integration' | 'all integrations' | 'one at a time'): Contender => ({
    name,
    async measure() {
      const call = calls[name] as Call
      const integrations = load === 'all integrations' ? INTEGRATIONS : 1
      const concurrency = load === 'one at a time' ? 1 : CONCURRENCY
      const {
        calls: made,
        perSecond,
        medianMs,
      } = await closedLoop({ concurrency, seconds: lengths.seconds }, (number) => call(number % integrations))
      if (name === OURS || name === SLIDING) written.ours += made
      else if (name !== BARE) written.peers += made
      return load === 'one at a time' ? medianMs : perSecond
    },
  })
  const scenario = async (load: Parameters<typeof contender>[1], names: readonly string[]) => {
    say(`${load}: ${names.join(', ')}`)
    const medians = await inTurn(
      names.map((name) => contender(name, load)),
      lengths.rounds,
    )
    const unit = load === 'one at a time' ? 'ms' : 'calls/s'
    const label = { 'one integration': '1 integration', 'all integrations': `${INTEGRATIONS} integrations` }
    return (name: string): Figure => ({
      name: `${load === 'one at a time' ? load : label[load]}: ${name}`,
      value: medians.get(name) as number,
      unit,
    })
  }

  const one = await scenario('one integration', [OURS, BARE, BY_HAND, PACKAGES, SLIDING])
  const all = await scenario('all integrations', [OURS, BY_HAND, PACKAGES])
  const single = await scenario('one at a time', [OURS, BARE, BY_HAND, PACKAGES])

  const rows = await peers.rows()
  if (rows.ours !== written.ours || rows.peers !== written.peers)
    throw new Error(
      `Calls made: ${JSON.stringify(written)}; rows written: ${JSON.stringify(rows)}. They must be the same.`,
    )

  const comparisons: Comparison[] = [one, all].flatMap((figure) => [
    compare(figure(OURS), figure(BY_HAND), 'ratio', GOALS.byHand),
    compare(figure(OURS), figure(PACKAGES), 'ratio', GOALS.packages),
  ])
  comparisons.push(compare(single(OURS), single(BARE), 'difference', GOALS.overheadMs))
  return {
    figures: [
      ...[OURS, BARE, BY_HAND, PACKAGES, SLIDING].map(one),
      ...[OURS, BY_HAND, PACKAGES].map(all),
      ...[OURS, BARE, BY_HAND, PACKAGES].map(single),
    ],
    comparisons,
  }
}
