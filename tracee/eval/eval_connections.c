/*
 * Database connections that an evaluation took. See eval.h. Context: the thread that ran the code; GVL held, under eval_try().
 *
 * ActiveRecord gives a connection to a thread for good: at the end of a request Rails' executor has it given back. An
 * evaluation's thread ends, and the pool would keep a connection that belongs to nobody until it looks for such. So this thread
 * gives back what it has, of all pools. One in which the code has left a transaction open is closed instead, which ends the
 * transaction: nobody else could end it, and the pool would give it to somebody. Seen with ActiveRecord 6.1; the names are those
 * of 5.2 to 8.0.
 */

#include "tracee/eval/eval.h"

#include "tracee/vm/builtin_methods.h"

static const char give_back_source[] =
	"if !::Object.autoload?(:ActiveRecord) && defined?(::ActiveRecord::Base) && !::ActiveRecord.autoload?(:Base)\n"
	"  handler = ::ActiveRecord::Base.connection_handler\n"
	/* 7.1 and later, 6.1 and later, before. */
	"  pools = if handler.respond_to?(:each_connection_pool) then handler.each_connection_pool\n"
	"          elsif handler.respond_to?(:all_connection_pools) then handler.all_connection_pools\n"
	"          else handler.connection_pool_list\n"
	"          end\n"
	"  pools.each do |pool|\n"
	"    connection = pool.active_connection?\n"
	"    next unless connection\n"
	"    connection.transaction_open? ? connection.throw_away! : pool.release_connection\n"
	"  end\n"
	"end\n";

VALUE eval_connections_give_back(VALUE unused)
{
	(void)unused;
	if (rb_const_defined_at(rb_cObject, rb_intern("ActiveRecord")))
		builtin_run(give_back_source);
	return Qnil;
}
