/** The whole system of a campaign: two APIs and two workers, their backends by links that can be cut, and the servers outside. */
import { existsSync } from 'node:fs'
import { chmod, mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { CuttingProxy } from '../../support/cutting-proxy.ts'
import { startCuttingProxy } from '../../support/cutting-proxy.ts'
import { SECRET } from '../../support/providers.ts'
import type { SubscriptionServer } from '../../support/subscription-server.ts'
import { startSubscriptionServer } from '../../support/subscription-server.ts'
import type { Backends, ChaosStack } from '../chaos-stack.ts'
import { startChaosStack, steadyPort } from '../chaos-stack.ts'
import type { FaultyStack } from '../inbox-faults.ts'
import type { Backend } from '../inbox-stack.ts'
import type { KeptProcess } from '../kept-process.ts'
import type { Clocks } from './clocks.ts'
import { fakeClocks } from './clocks.ts'
import type { ScarceDisk } from './disk.ts'
import { mountScarceDisk } from './disk.ts'
import { APIS, WORKERS } from './faults.ts'
import type { Doors } from './load.ts'
import type { Outside } from './outside.ts'
import { startOutside } from './outside.ts'

/** Fewer than the processes may open, so that connections change hands. */
const POOLER_CONNECTIONS = 20
const SUBSCRIPTION_LIFE_SECONDS = 40
/** The write-ahead log is not to fill the small disk by itself. */
const SMALL_LOG = { max_wal_size: '256MB', min_wal_size: '80MB' }

export interface CampaignStack extends ChaosStack, FaultyStack {
  readonly outside: Outside
  readonly subscriptions: SubscriptionServer
  /** All that is killed, by name. */
  readonly parts: ReadonlyMap<string, KeptProcess>
  readonly doors: Doors
  readonly crms: readonly number[]
  readonly acmes: readonly number[]
  /** Switched off by its health, so that its webhooks wait: its old rows are what pruning is judged by. */
  readonly atticId: number
}

export interface CampaignMachine {
  readonly installed: string
  /** Path of libfaketime, where clocks jump. */
  readonly faketime: string | null
  readonly hasScarceDisk: boolean
  readonly hasPooler: boolean
  readonly temporalServer: 'dev' | 'full'
}

export async function startCampaignStack(
  random: () => number,
  { installed, faketime, hasScarceDisk, hasPooler, temporalServer }: CampaignMachine,
): Promise<CampaignStack> {
  const stops: (() => Promise<unknown>)[] = []
  const stop = async (): Promise<void> => {
    for (let next = stops.pop(); next !== undefined; next = stops.pop()) await next()
  }
  try {
    const folder = await mkdtemp(join(tmpdir(), 'durable-campaign-'))
    stops.push(() => rm(folder, { recursive: true, force: true }))
    // Else the cluster of a root, which runs as another user, lies elsewhere, on a disk that is never full.
    await chmod(folder, 0o711)
    const disk = hasScarceDisk ? await openDisk(folder, stops) : null
    const clocks = faketime === null ? null : fakeClocks(faketime, folder)
    const outside = await startOutside(random)
    stops.push(() => outside.stop())
    const subscriptions = await startSubscriptionServer({ lifeSeconds: SUBSCRIPTION_LIFE_SECONDS })
    stops.push(() => subscriptions.close())
    process.env.OUTSIDE_URL = outside.url
    const links = new Map<string, Record<Backend, CuttingProxy>>()
    stops.push(async () => {
      for (const { postgres, temporal } of links.values()) await Promise.all([postgres.close(), temporal.close()])
    })
    const webhooks = { credentials: { webhook_secret: SECRET } }
    const shop = (name: string) => ({ provider: 'shop', name, ...webhooks })
    const stack = await startChaosStack({
      hostConfig: new URL('./host.ts', import.meta.url),
      integration: shop('shop 1'),
      poolerConnections: hasPooler ? POOLER_CONNECTIONS : null,
      installed,
      temporalServer,
      ...(disk === null ? {} : { databaseFolder: disk.folder, databaseSettings: SMALL_LOG }),
      environmentOf: async (name, backends) => ({
        ...(await linked(links, name, backends)),
        ...(clocks === null ? {} : await clocks.environmentOf(name)),
      }),
    })
    stops.push(() => stack.stop())
    if (disk !== null && !existsSync(join(disk.folder, 'cluster')))
      throw new Error(`Postgres has not put its data into ${disk.folder}, whose disk is to be filled`)

    const { integrations } = stack
    const create = async (integration: Parameters<typeof integrations.create>[0]): Promise<number> =>
      (await integrations.create(integration)).id
    const many = async (count: number, provider: string, more: object = webhooks): Promise<number[]> => {
      const ids: number[] = []
      for (let n = 1; n <= count; n += 1)
        ids.push(await create({ provider, name: `${provider} ${n}`, credentials: {}, ...more }))
      return ids
    }
    const doors = {
      shops: [
        stack.integrationId,
        await create(shop('shop 2')),
        await create(shop('shop 3')),
        await create(shop('shop 4')),
      ],
      batches: await many(2, 'batch'),
      banks: await many(3, 'bank'),
    }
    for (const id of doors.banks) await (await integrations.get(id)).updateCredentials({ ...outside.grant(id) })
    const crms = await many(2, 'crm', {})
    const acmes = await many(3, 'acme', { metadata: { server: subscriptions.url } })
    const atticId = await create(shop('attic'))
    // One that a person switches off would have its webhooks failed.
    await stack.sql`update integrations set is_active = false, health_status = 'disabled' where id = ${atticId}`

    const ports = [await steadyPort(), await steadyPort()]
    const parts = new Map<string, KeptProcess>(APIS.map((name, at) => [name, stack.keepApi(ports[at] as number, name)]))
    parts.set(WORKERS[0], stack.worker)
    parts.set(WORKERS[1], stack.keepWorker(WORKERS[1]))
    parts.set('postgres', stack.postgres)
    parts.set('temporal', stack.temporal)
    if (stack.pooler !== null) parts.set('pgbouncer', stack.pooler)
    await Promise.all([...parts.values()].map((part) => part.ready()))
    return {
      ...stack,
      outside,
      subscriptions,
      parts,
      doors: { ...doors, apis: ports.map((port) => `http://127.0.0.1:${port}`) },
      crms,
      acmes,
      atticId,
      partOf: (target) => named(parts, target),
      linkOf: (target, backend) => named(links, target)[backend],
      ...abilities(clocks, disk),
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

async function openDisk(folder: string, stops: (() => Promise<unknown>)[]): Promise<ScarceDisk> {
  const place = join(folder, 'disk')
  await mkdir(place)
  const disk = mountScarceDisk(place)
  if (typeof disk === 'string') throw new Error(disk)
  stops.push(() => disk.unmount())
  return disk
}

function abilities(clocks: Clocks | null, disk: ScarceDisk | null): Pick<FaultyStack, 'setClock' | 'fillDisk'> {
  return {
    ...(clocks === null ? {} : { setClock: clocks.set }),
    ...(disk === null ? {} : { fillDisk: disk.fill }),
  }
}

/** The same links for each start of a process. */
async function linked(
  links: Map<string, Record<Backend, CuttingProxy>>,
  name: string,
  { DATABASE_URL, TEMPORAL_ADDRESS }: Backends,
): Promise<Record<string, string>> {
  const own = links.get(name) ?? {
    postgres: await startCuttingProxy(DATABASE_URL),
    temporal: await startCuttingProxy(`http://${TEMPORAL_ADDRESS}`),
  }
  links.set(name, own)
  return { DATABASE_URL: own.postgres.url, TEMPORAL_ADDRESS: new URL(own.temporal.url).host }
}

function named<T>(map: ReadonlyMap<string, T>, name: string): T {
  const found = map.get(name)
  if (found === undefined) throw new Error(`no ${name}: there are ${[...map.keys()].join(', ')}`)
  return found
}
