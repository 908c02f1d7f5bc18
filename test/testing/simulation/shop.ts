/** The world outside of the little hosts: a shop with orders that change, charges and customers. */
import type { Outside, Random, World } from 'durable-integrations/testing'
import { hmacSigner, signedWebhook } from 'durable-integrations/testing'

export const SECRET = 'a-webhook-secret-of-the-shop'
export const API = 'https://api.shop.example'

export interface Order {
  readonly id: string
  readonly title: string
  /** Of each change one more, deletions included. */
  readonly version: number
  /** Whole seconds, by the shop's clock. */
  readonly updated_at: string
  readonly is_deleted: boolean
}

interface ShopOptions {
  /** Sends deliveries of changes. Default false. */
  readonly sends?: boolean
}

const TITLES = ['bolts', 'nuts', 'screws', 'nails']
const PAGE = 1
const sign = hmacSigner({ header: 'x-shop-signature' })

export class Shop implements Outside {
  readonly orders = new Map<string, Order>()
  /** In the order in which they were made. */
  readonly charges: { readonly id: string; readonly order: string }[] = []
  readonly customers: { readonly id: string; readonly name: string }[] = []
  readonly #world: World
  readonly #options: ShopOptions
  readonly #answers = new Map<string, unknown>()
  #events = 0

  constructor(world: World, options: ShopOptions = {}) {
    this.#world = world
    this.#options = options
  }

  readonly changes = {
    place: (random: Random) => this.#put(`o${this.orders.size + 1}`, random.pick(TITLES), false),
    rename: (random: Random) => this.#among(random, ({ id }) => this.#put(id, random.pick(TITLES), false)),
    remove: (random: Random) => this.#among(random, ({ id, title }) => this.#put(id, title, true)),
  }

  /** Those that are there, as a mirror has them. */
  get present(): { id: string; title: string }[] {
    return [...this.orders.values()]
      .filter(({ is_deleted: isDeleted }) => !isDeleted)
      .map(({ id, title }) => ({ id, title }))
      .sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  async api(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url)
    if (request.method === 'GET' && pathname === '/orders') return Response.json(this.#list(searchParams))
    const order = this.orders.get(pathname.replace('/orders/', ''))
    if (request.method === 'GET' && pathname.startsWith('/orders/'))
      return order === undefined ? new Response(null, { status: 404 }) : Response.json(order)
    if (request.method === 'POST' && pathname === '/charges')
      return this.#once(request, (body) => {
        const charge = { id: `c${this.charges.length + 1}`, order: String(body.order) }
        this.charges.push(charge)
        return charge
      })
    if (request.method === 'POST' && pathname === '/customers')
      return this.#once(request, (body) => {
        const customer = { id: `k${this.customers.length + 1}`, name: String(body.name) }
        this.customers.push(customer)
        return customer
      })
    return new Response(null, { status: 404 })
  }

  /** A key is answered once, and then as before. */
  async #once(request: Request, make: (body: Record<string, unknown>) => unknown): Promise<Response> {
    const key = request.headers.get('idempotency-key')
    const known = key === null ? undefined : this.#answers.get(key)
    if (known !== undefined) return Response.json(known)
    const made = make((await request.json()) as Record<string, unknown>)
    if (key !== null) this.#answers.set(key, made)
    return Response.json(made, { status: 201 })
  }

  /** In the order of change; `since` includes its second, `after` a place, `page` counts from 1. */
  #list(query: URLSearchParams): unknown {
    const [since, over, after] = [query.get('since') ?? '', query.get('over') ?? '', query.get('after') ?? '']
    const page = Number(query.get('page') ?? 1)
    const placeOf = ({ updated_at: at, id }: Order): string => `${at} ${id}`
    const all = [...this.orders.values()]
      .filter((order) => order.updated_at >= since && order.updated_at > over && placeOf(order) > after)
      .sort((a, b) => (placeOf(a) < placeOf(b) ? -1 : 1))
    const orders = all.slice((page - 1) * PAGE, page * PAGE)
    const last = orders.at(-1)
    const hasMore = all.length > page * PAGE
    return {
      orders,
      next: hasMore && last !== undefined ? placeOf(last) : null,
      has_more: hasMore,
      as_of: this.#second(),
    }
  }

  #second(): string {
    return `${this.#world.now().toISOString().slice(0, 19)}Z`
  }

  #among(random: Random, change: (order: Order) => void): void {
    const orders = [...this.orders.values()].filter(({ is_deleted: isDeleted }) => !isDeleted)
    if (orders.length > 0) change(random.pick(orders))
  }

  #put(id: string, title: string, isDeleted: boolean): void {
    const before = this.orders.get(id)
    const order = { id, title, version: (before?.version ?? 0) + 1, updated_at: this.#second(), is_deleted: isDeleted }
    this.orders.set(id, order)
    if (this.#options.sends !== true) return
    this.#events += 1
    const type = before === undefined ? 'order.placed' : isDeleted ? 'order.removed' : 'order.changed'
    const event = { id: `e${this.#events}`, type, order }
    this.#world.deliver(() => signedWebhook(sign, event, { secret: SECRET, deliveryId: event.id }))
  }
}
