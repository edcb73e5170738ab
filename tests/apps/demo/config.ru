require_relative "shop"
run Shop
