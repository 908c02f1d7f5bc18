/** https://docs.stripe.com/api/customers */
import type Stripe from 'stripe'
import type { StripeAccount } from '../account.ts'
import type { PageParams } from '../paging.ts'
import { pageParams } from '../paging.ts'
import { checkTexts, given, pathOf } from '../stripe-arguments.ts'
import type { Keyed, Page } from '../stripe-call.ts'
import { callStripe } from '../stripe-call.ts'

type Maybe<T> = T | null | undefined

export interface CreateCustomer extends Keyed {
  readonly email?: Maybe<string>
  readonly name?: Maybe<string>
  readonly description?: Maybe<string>
  readonly phone?: Maybe<string>
  /** An empty text clears it whole. */
  readonly metadata?: Maybe<Stripe.Emptyable<Stripe.MetadataParam>>
}

export interface UpdateCustomer extends CreateCustomer {
  readonly id: string
}

export interface ListCustomers extends PageParams {
  readonly email?: Maybe<string>
}

const PATH = 'customers'

export class Customers {
  constructor(private readonly account: StripeAccount) {}

  async create(customer: CreateCustomer = {}): Promise<Stripe.Response<Stripe.Customer>> {
    const { email, name, description, phone, metadata, idempotencyKey } = customer
    checkTexts({ idempotencyKey })
    const params = given({ email, name, description, phone, metadata })
    return callStripe(this.account, {
      endpoint: PATH,
      method: 'POST',
      params,
      idempotencyKey,
      send: (stripe) => stripe.customers.create(params),
    })
  }

  /** A deleted one has `deleted: true` and little else. */
  async retrieve({ id }: { readonly id: string }): Promise<Stripe.Response<Stripe.Customer | Stripe.DeletedCustomer>> {
    return callStripe(this.account, {
      endpoint: pathOf(PATH, id),
      method: 'GET',
      send: (stripe) => stripe.customers.retrieve(id),
    })
  }

  async update(customer: UpdateCustomer): Promise<Stripe.Response<Stripe.Customer>> {
    const { id, email, name, description, phone, metadata, idempotencyKey } = customer
    const endpoint = pathOf(PATH, id)
    checkTexts({ idempotencyKey })
    const params = given({ email, name, description, phone, metadata })
    return callStripe(this.account, {
      endpoint,
      method: 'POST',
      params,
      idempotencyKey,
      send: (stripe) => stripe.customers.update(id, params),
    })
  }

  async delete({
    id,
    idempotencyKey,
  }: Keyed & { readonly id: string }): Promise<Stripe.Response<Stripe.DeletedCustomer>> {
    const endpoint = pathOf(PATH, id)
    checkTexts({ idempotencyKey })
    return callStripe(this.account, {
      endpoint,
      method: 'DELETE',
      idempotencyKey,
      send: (stripe) => stripe.customers.del(id),
    })
  }

  async list({ email, ...page }: ListCustomers = {}): Promise<Page<Stripe.Customer>> {
    checkTexts({ email })
    const params = given({ email, ...pageParams(page) })
    return callStripe(this.account, {
      endpoint: PATH,
      method: 'GET',
      params,
      send: (stripe) => stripe.customers.list(params),
    })
  }
}
