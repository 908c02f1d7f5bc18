/** https://docs.stripe.com/api/customers */
import type Stripe from 'stripe'
import type { Maybe, PageParams } from '../stripe-arguments.ts'
import { checkTexts, given, pageParams, pathOf } from '../stripe-arguments.ts'
import type { Keyed, Page, StripeAccount } from '../stripe-call.ts'
import { readStripe, writeStripe } from '../stripe-call.ts'

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
    const params = given({ email, name, description, phone, metadata })
    return writeStripe(this.account, { endpoint: PATH, params, idempotencyKey }, (stripe) =>
      stripe.customers.create(params),
    )
  }

  /** A deleted one has `deleted: true` and little else. */
  async retrieve({ id }: { readonly id: string }): Promise<Stripe.Response<Stripe.Customer | Stripe.DeletedCustomer>> {
    return readStripe(this.account, pathOf(PATH, id), (stripe) => stripe.customers.retrieve(id))
  }

  async update(customer: UpdateCustomer): Promise<Stripe.Response<Stripe.Customer>> {
    const { id, email, name, description, phone, metadata, idempotencyKey } = customer
    const endpoint = pathOf(PATH, id)
    const params = given({ email, name, description, phone, metadata })
    return writeStripe(this.account, { endpoint, params, idempotencyKey }, (stripe) =>
      stripe.customers.update(id, params),
    )
  }

  async delete({
    id,
    idempotencyKey,
  }: Keyed & { readonly id: string }): Promise<Stripe.Response<Stripe.DeletedCustomer>> {
    const endpoint = pathOf(PATH, id)
    return writeStripe(this.account, { endpoint, idempotencyKey, method: 'DELETE' }, (stripe) =>
      stripe.customers.del(id),
    )
  }

  async list({ email, ...page }: ListCustomers = {}): Promise<Page<Stripe.Customer>> {
    checkTexts({ email })
    const params = given({ email, ...pageParams(page) })
    return readStripe(this.account, PATH, (stripe) => stripe.customers.list(params), params)
  }
}
