/**
 * What people and clocks do to the system while it is at work: syncs are asked for, subscriptions come and go, old rows are pruned,
 * keys are rotated with a deployment between the steps, the provider has foul weather. All by the package's own interface.
 */
import { readFile, writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ConfigInput, Integrations } from '../../../src/index.ts'
import { createIntegrations, generateEncryptionKey } from '../../../src/index.ts'
import { isIntegrationsError } from '../../../src/provider.ts'
import type { HostNotes } from '../host-notes.ts'
import type { Happened } from '../inbox-faults.ts'
import { happen } from '../inbox-faults.ts'
import { plantOldRows } from './attic.ts'
import { APIS, WORKERS } from './faults.ts'
import { CAMPAIGN_CONFIG, campaignProviders } from './providers.ts'
import type { CampaignStack } from './stack.ts'

const SYNC_EVERY_MS = 5_000
const SUBSCRIBE_EVERY_MS = 6_000
const PRUNE_EVERY_MS = 15_000
const REFRESH_EVERY_MS = 4_000
const ROTATE_EVERY_MS = 120_000
const FOUL_EVERY_MS = 20_000
const FOUL_MS = 3_000
const AGAIN_MS = 500
/** For an act that must come to its end, such as the step of a rotation. */
const ACT_WITHIN_MS = 240_000

export interface Operators {
  /** By the ring of the present step. */
  integrations: Integrations
  /** Restarts that a deployment made. */
  readonly restarts: Happened[]
  /** Whether each integration is to have a subscription. */
  readonly wanted: Map<number, boolean>
  readonly acts: Map<string, number>
  readonly failures: Map<string, number>
  rotations: number
}

export async function startOperators(stack: CampaignStack): Promise<Operators> {
  return {
    integrations: operatorOf(stack, await readFile(stack.keyFile, 'utf8')),
    restarts: [],
    wanted: new Map(stack.acmes.map((id) => [id, false])),
    acts: new Map(),
    failures: new Map(),
    rotations: 0,
  }
}

/** Ends when it is over, and each act under way has come to its end. */
export async function operate(
  stack: CampaignStack,
  operators: Operators,
  { random, isOver }: { random: () => number; isOver: () => boolean },
): Promise<void> {
  const every = async (what: string, everyMs: number, act: () => Promise<unknown>): Promise<void> => {
    while (!isOver()) {
      await tried(operators, what, act)
      for (let left = everyMs * (0.5 + random()); left > 0 && !isOver(); left -= AGAIN_MS) await sleep(AGAIN_MS)
    }
  }
  await Promise.all([
    every('ask for syncs', SYNC_EVERY_MS, async () => {
      for (const id of stack.crms) await operators.integrations.syncs.start(id)
    }),
    every('change a subscription', SUBSCRIBE_EVERY_MS, () => changeSubscription(stack, operators, random)),
    every('prune', PRUNE_EVERY_MS, async () => {
      await plantOldRows(stack)
      await operators.integrations.admin.prune()
    }),
    every('refresh tokens', REFRESH_EVERY_MS, async () => {
      const id = stack.doors.banks[Math.floor(random() * stack.doors.banks.length)] as number
      await (await operators.integrations.get(id)).getAccessToken()
    }),
    every('rotate keys', ROTATE_EVERY_MS, () => rotateKeys(stack, operators)),
    every('foul weather', FOUL_EVERY_MS, async () => {
      stack.outside.weather = 'foul'
      troubleSubscriptions(stack, random)
      for (const [, grants] of stack.outside.grants) if (random() < 0.3) grants.withdrawn = grants.given
      await sleep(FOUL_MS)
      stack.outside.weather = 'fair'
    }),
  ])
}

/** Until it succeeds, whatever is away. @throws when it does not for four minutes */
export async function untilDone<T>(operators: Operators, what: string, act: () => Promise<T>): Promise<T> {
  const giveUpAt = performance.now() + ACT_WITHIN_MS
  for (;;)
    try {
      return await act()
    } catch (error) {
      note(operators.failures, `${what}: ${nameOf(error)}`)
      if (performance.now() > giveUpAt) throw error
      await sleep(AGAIN_MS)
    }
}

/** One that the provider refuses is asked for all the same: the framework goes on by itself. */
export async function setSubscription(
  { integrations, wanted }: Operators,
  id: number,
  isWanted: boolean,
): Promise<void> {
  wanted.set(id, isWanted)
  try {
    await integrations.webhooks[isWanted ? 'register' : 'unregister'](id)
  } catch (error) {
    if (!isIntegrationsError(error, 'webhook_subscription_failed')) throw error
  }
}

async function changeSubscription(stack: CampaignStack, operators: Operators, random: () => number): Promise<void> {
  const id = stack.acmes[Math.floor(random() * stack.acmes.length)] as number
  const isWanted = random() < 0.7
  await untilDone(operators, 'change a subscription', () => setSubscription(operators, id, isWanted))
}

function troubleSubscriptions({ subscriptions }: CampaignStack, random: () => number): void {
  for (const method of ['POST', 'PATCH', 'GET', 'DELETE']) {
    const kind = random()
    if (kind < 0.25) subscriptions.faults.push({ method, fault: { status: kind < 0.12 ? 500 : 429 } })
    else if (kind < 0.5 && method !== 'GET') subscriptions.faults.push({ method, fault: 'answer lost' })
  }
}

/** The four steps of docs/behaviour/credentials.md, "A new key", each in every process before the next one begins. */
async function rotateKeys(stack: CampaignStack, operators: Operators): Promise<void> {
  const old = (await readFile(stack.keyFile, 'utf8')).trim()
  const key = generateEncryptionKey(`campaign-${operators.rotations + 1}`)
  for (const ring of [`${old},${key}`, `${key},${old}`]) await deploy(stack, operators, ring)
  await untilDone(operators, 'rotate keys', async () => {
    await operators.integrations.admin.keys.rotate()
    const { keys } = await operators.integrations.admin.keys.status()
    const left = keys.filter(({ kid, rows }) => kid !== key.split(':')[0] && rows > 0)
    if (left.length > 0) throw new Error(`rows of other keys are left: ${JSON.stringify(left)}`)
  })
  await deploy(stack, operators, key)
  operators.rotations += 1
}

/** Half of the processes at a time, as a deployment does. */
async function deploy(stack: CampaignStack, operators: Operators, ring: string): Promise<void> {
  await writeFile(stack.keyFile, `${ring}\n`, { mode: 0o600 })
  const before = operators.integrations
  operators.integrations = operatorOf(stack, ring)
  for (const wave of APIS.map((api, at) => [api, WORKERS[at] as string]))
    await Promise.all(
      wave.map((name) =>
        untilDone(operators, 'deploy', async () => {
          operators.restarts.push(await happen(stack, { kind: 'restart', target: name }))
          await stack.partOf(name).ready()
        }),
      ),
    )
  await before.close()
}

export function operatorOf(
  { outside }: CampaignStack,
  ring: string,
  { baseUrl = 'https://hooks.example.com', operator }: { baseUrl?: string } & Pick<ConfigInput, 'operator'> = {},
): Integrations {
  const silent = { debug: () => {}, info: () => {}, warn: () => {}, error: () => {} }
  return createIntegrations({
    encryptionKeys: ring.trim(),
    baseUrl,
    egress: { allow: ['127.0.0.1'] },
    config: { ...CAMPAIGN_CONFIG, ...(operator === undefined ? {} : { operator }) },
    // It handles nothing, so it notes nothing.
    providers: campaignProviders({} as HostNotes, outside.url),
    logger: silent,
  })
}

async function tried({ acts, failures }: Operators, what: string, act: () => Promise<unknown>): Promise<void> {
  try {
    await act()
    note(acts, what)
  } catch (error) {
    // Its backends may be away. What it leaves behind is judged by the tables.
    note(failures, `${what}: ${nameOf(error)}`)
  }
}

function note(counts: Map<string, number>, what: string): void {
  counts.set(what, (counts.get(what) ?? 0) + 1)
}

function nameOf(error: unknown): string {
  if (isIntegrationsError(error)) return error.code
  const { name, code } = error as { name?: unknown; code?: unknown }
  return typeof code === 'string' ? code : String(name ?? error)
}
