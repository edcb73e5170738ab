#include "subcommand.h"
static int run(int a,char**v){(void)a;(void)v;return 1;}
const struct subcommand cmd_methods={.name="methods",.arguments="",.summary="",.run=run};
